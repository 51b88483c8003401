"""Figures of a reproduction: a measure at the points of an axis, and loss curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphkin.experiments.definition import Experiment
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.figures import COLOURS, QUIET, Entry, Figure, curve, panel, plain
from graphkin.report.reading import cell_of, place

DASHES = ("dot", "dash", "dashdot")


def ratio_figure(summary: Summary) -> Figure:
    """Mean and spread at every measure, a panel for each dataset; the paper's numbers as open marks."""
    experiment = summary.experiment
    far = {row.name for row in experiment.rows if row.ideal or row.baseline in ("raw features", "untrained encoder")}
    legend = [replace(entry, hidden=entry.name in far) for entry in _row_entries(experiment)]
    positions = _positions(experiment.measures)
    panels = []
    for dataset in experiment.datasets:
        bands, lines = [], []
        for number, entry in enumerate(legend):
            cells = [cell_of(summary, entry.name, dataset, measure) for measure in experiment.measures]
            bands += _band(cells, positions, entry, number)
            lines += _line(cells, positions, entry, number) + _published(cells, positions, entry, number)
        axis = {"title": {"text": plain(experiment.axis or "")}, "tickvals": positions, "ticktext": list(experiment.measures)}
        panels.append(
            panel(experiment.heading(dataset), bands + lines, axis, f"{experiment.quantity(experiment.measures[0])}, %")
        )
    caption = "Mean over seeds; the band is one standard deviation to each side. Open diamonds with bars: the paper."
    if far:
        caption += " Rows far above or below are hidden until chosen."
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
        data = []
        for number, entry in enumerate(legend):
            cell = curves.get((entry.name, dataset, measure))
            if cell is not None:
                epochs = np.linspace(1, max(cell.epochs, 1), len(cell.losses))
                data.append(curve(epochs.round(1).tolist(), list(cell.losses), entry, number))
        panels.append(panel(experiment.heading(dataset), data, {"title": {"text": "epoch"}}, "loss"))
    where = f", at {place(experiment, measure)}" if experiment.scored_by.by_labels else ""
    caption = (
        f"Mean loss over seeds{where}. Objectives have different scales: compare the shapes of the curves, not their heights."
    )
    return Figure(f"loss-{experiment.name}", caption, panels, legend)


def _row_entries(experiment: Experiment) -> list[Entry]:
    """Methods in colour, the base first; baselines and the bound that sees labels quiet, told apart by their dashes."""
    entries, colours, dashes = [], 0, 0
    for row in experiment.rows:
        if row.baseline is not None or row.ideal:
            entries.append(Entry(row.name, QUIET, DASHES[dashes % len(DASHES)] if row.baseline else "solid"))
            dashes += row.baseline is not None
        else:
            entries.append(Entry(row.name, colours % COLOURS, "solid" if colours < COLOURS else "dash"))
            colours += 1
    return entries


def _positions(measures: Sequence[str]) -> list[float]:
    """Measures as numbers if they are numbers, otherwise in equal steps."""
    try:
        return [float(measure.removesuffix("%").strip()) for measure in measures]
    except ValueError:
        return [float(number) for number in range(len(measures))]


def _band(cells: list[Cell], positions: list[float], entry: Entry, number: int) -> list[dict[str, Any]]:
    known = [(x, cell.mean, cell.std) for x, cell in zip(positions, cells, strict=True) if not math.isnan(cell.std)]
    if len(known) < 2:
        return []
    there = [(x, mean + std) for x, mean, std in known]
    back = [(x, mean - std) for x, mean, std in reversed(known)]
    x, y = zip(*there, *back, strict=True)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": list(x),
            "y": [round(value, 4) for value in y],
            "fill": "toself",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "meta": {"colour": entry.colour, "entry": number, "part": "band"},
        }
    ]


def _line(cells: list[Cell], positions: list[float], entry: Entry, number: int) -> list[dict[str, Any]]:
    known = [(x, cell) for x, cell in zip(positions, cells, strict=True) if cell.count]
    spreads = ["" if math.isnan(cell.std) else f" ± {cell.std:.2f}" for _, cell in known]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": plain(entry.name),
            "x": [x for x, _ in known],
            "y": [round(cell.mean, 4) for _, cell in known],
            "customdata": [[spread, cell.count] for spread, (_, cell) in zip(spreads, known, strict=True)],
            "hovertemplate": f"{plain(entry.name)}<br>%{{y:.2f}}%{{customdata[0]}}, n = %{{customdata[1]}}<extra></extra>",
            "line": {"width": 2 if entry.colour != QUIET else 1.5, "dash": entry.dash},
            "marker": {"size": 5},
            "meta": {"colour": entry.colour, "entry": number, "part": "line"},
        }
    ]


def _published(cells: list[Cell], positions: list[float], entry: Entry, number: int) -> list[dict[str, Any]]:
    known = [(x, cell.published) for x, cell in zip(positions, cells, strict=True) if cell.published is not None]
    if not known:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [x for x, _ in known],
            "y": [mean for _, (mean, _) in known],
            "error_y": {"type": "data", "array": [std for _, (_, std) in known], "thickness": 1.2, "width": 3},
            "hovertemplate": f"{plain(entry.name)}, published<br>%{{y:.2f}} ± %{{error_y.array:.2f}}<extra></extra>",
            "marker": {"size": 8, "symbol": "diamond-open", "line": {"width": 1.5}},
            "meta": {"colour": entry.colour, "entry": number, "part": "published"},
        }
    ]
