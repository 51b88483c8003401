"""Figures of a reproduction: a measure at the points of an axis, and loss curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphkin.experiments.definition import Experiment, ExperimentRow
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.charts import SYMBOLS, Chart, Mark, Scale, Series, scale_of
from graphkin.report.figures import COLOURS, DASHES, QUIET, Entry, Figure, colour, side_by_side
from graphkin.report.reading import cell_of, enhanced_row, enumerated, place, spread

LINES = tuple(DASHES)
ANGLES = (45, 135, 90, 0, 22, 112, 67, 157)
SIZES = {3: (380, 250)}
"""of panels, by how many are side by side"""
SIZE = (480, 290)


def ratio_figure(summary: Summary) -> Figure:
    """Mean and spread at every measure, a panel for each dataset; the paper's numbers as open marks."""
    experiment = summary.experiment
    far = [row.name for row in experiment.rows if _is_far(row)]
    shown = (experiment.base, enhanced_row(experiment))
    legend = [
        entry if None in shown or entry.name in shown else replace(entry, hatch=None)
        for entry in _row_entries(experiment)
        if entry.name not in far
    ]
    positions = _positions(experiment.measures)
    panels = []
    for dataset in experiment.datasets:
        series = []
        for number, entry in enumerate(legend):
            cells = [cell_of(summary, entry.name, dataset, measure) for measure in experiment.measures]
            series.append(_points(list(zip(positions, cells, strict=True)), entry, number))
        panels.append(
            Chart(
                experiment.heading(dataset),
                _axis(positions, experiment.measures),
                scale_of(_heights(series)),
                series,
                size=_size(experiment),
                x_title=experiment.axis or "",
                y_title=f"{experiment.quantity(experiment.measures[0])}, %",
            )
        )
    banded = [entry.name for entry in legend if entry.hatch is not None]
    around = f", and one standard deviation to each side of {enumerated(banded)} (hatched)" if banded else ""
    caption = f"Mean over seeds{around}. Open marks with bars: the paper."
    if far:
        caption += f" In the table only, because they are far away: {', '.join(far)}."
    return Figure(f"points-{experiment.name}", caption, panels, legend)


def loss_figure(summary: Summary) -> Figure | None:
    """Mean loss curves by row, a panel for each dataset; None where no run has trained."""
    experiment = summary.experiment
    measure = experiment.measures[-1]
    curves = {key: cell for key, cell in summary.cells.items() if cell.losses and key[2] == measure}
    legend = [entry for entry in _row_entries(experiment) if any(row == entry.name for row, _, _ in curves)]
    if not legend:
        return None
    panels = []
    for dataset in experiment.datasets:
        series = []
        for number, entry in enumerate(legend):
            cell = curves.get((entry.name, dataset, measure))
            if cell is not None:
                epochs = np.linspace(1, max(cell.epochs, 1), len(cell.losses)).tolist()
                series.append(curve(epochs, cell.losses, entry, number))
        panels.append(loss_chart(experiment.heading(dataset), series, _size(experiment)))
    where = f", at {place(experiment, measure)}" if experiment.scored_by.by_labels else ""
    caption = (
        f"Mean loss over seeds{where}. Objectives have different scales: compare the shapes of the curves, not their heights."
    )
    return Figure(f"loss-{experiment.name}", caption, panels, legend)


def curve(x: Sequence[float], y: Sequence[float], entry: Entry, number: int | None) -> Series:
    """A line through the values that are finite."""
    known = [(at, value) for at, value in zip(x, y, strict=True) if math.isfinite(value)]
    return Series(entry.name, entry.colour, number, entry.dashes, known)


def loss_chart(title: str, series: Sequence[Series], size: tuple[int, int]) -> Chart:
    epochs = scale_of([x for one in series for x, _ in one.line], 5, low=0)
    return Chart(title, epochs, scale_of(_heights(series)), series, size=size, x_title="epoch", y_title="loss")


def _is_far(row: ExperimentRow) -> bool:
    """Whether its values are far above or below those of methods, which would be squeezed."""
    return row.ideal or row.baseline in ("raw features", "untrained encoder")


def _row_entries(experiment: Experiment) -> list[Entry]:
    """Methods in colour; baselines and the bound that sees labels quiet. Each has its own dashes, mark and hatching."""
    entries, colours, quiet = [], 0, 0
    for row in experiment.rows:
        if row.baseline is not None or row.ideal:
            entries.append(Entry(row.name, QUIET, LINES[1 + quiet % 3], SYMBOLS[-1 - quiet % len(SYMBOLS)]))
            quiet += 1
        else:
            line = LINES[(colours + colours // COLOURS) % len(LINES)]
            entries.append(
                Entry(row.name, colour(colours), line, SYMBOLS[colours % len(SYMBOLS)], ANGLES[colours % len(ANGLES)])
            )
            colours += 1
    return entries


def _size(experiment: Experiment) -> tuple[int, int]:
    return SIZES.get(side_by_side(len(experiment.datasets)), SIZE)


def _positions(measures: Sequence[str]) -> list[float]:
    """Measures as numbers if they are numbers, otherwise in equal steps."""
    try:
        return [float(measure.removesuffix("%").strip()) for measure in measures]
    except ValueError:
        return [float(number) for number in range(len(measures))]


def _axis(positions: Sequence[float], measures: Sequence[str]) -> Scale:
    """With some room beside the first and the last point."""
    room = 0.06 * (max(positions) - min(positions)) or 0.5
    return Scale(min(positions) - room, max(positions) + room, list(zip(positions, measures, strict=True)))


def _points(cells: Sequence[tuple[float, Cell]], entry: Entry, number: int) -> Series:
    known = [(x, cell) for x, cell in cells if cell.count]
    spreads = [(x, cell.mean - cell.std, cell.mean + cell.std) for x, cell in known if not math.isnan(cell.std)]
    marks = [
        Mark(x, cell.mean, "ours", f"{entry.name}: {spread(cell.mean, cell.std)}, n = {cell.count}", entry.symbol)
        for x, cell in known
    ]
    for x, published in ((x, cell.published) for x, cell in cells if cell.published is not None):
        words = f"{entry.name}, published: {spread(*published)}"
        marks.append(Mark(x, published[0], "published", words, entry.symbol, published[1]))
    line = [(x, cell.mean) for x, cell in known]
    band = spreads if len(spreads) > 1 and entry.hatch is not None else []
    return Series(entry.name, entry.colour, number, entry.dashes, line, band, marks)


def _heights(series: Sequence[Series]) -> list[float]:
    lines = [y for one in series for _, y in one.line]
    bands = [y for one in series for _, low, high in one.band for y in (low, high)]
    return lines + bands + [y for one in series for mark in one.marks for y in (mark.y - mark.spread, mark.y + mark.spread)]
