"""Figures as data for plotly.js. A trace names its place in the palette; the page's theme gives the colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

import numpy as np

from graphkin.experiments import Experiment
from graphkin.experiments.tables import Cell, Summary
from graphkin.report.map import NO_LABEL, NodeMap
from graphkin.report.reading import MISSING, cell_of, place
from graphkin.report.weights import WeightDiagnosis

COLOURS = 15
"""in the palette of the style sheet"""
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross")
DASHES = ("dot", "dash", "dashdot")
QUIET = "quiet"
"""the colour of lines that are there for comparison"""
SHADE = "shade"
"""the same for bars"""


@dataclass(frozen=True)
class Entry:
    """A line of the legend, which shows and hides the traces that point to it."""

    name: str
    colour: int | str
    dash: str = "solid"
    symbol: str = ""


@dataclass(frozen=True)
class Panel:
    title: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


@dataclass(frozen=True)
class Figure:
    key: str
    caption: str
    panels: list[Panel]
    legend: list[Entry] = field(default_factory=list)
    nodes: dict[str, Any] | None = None
    """of a map: who and whose neighbours they are"""

    @property
    def columns(self) -> int:
        """At most three beside each other, and no row of panels with one alone in it where that can be helped."""
        count = len(self.panels)
        return count if count <= 3 else 3 if count % 3 == 0 else 2

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ratio_figure(summary: Summary) -> Figure:
    """Mean accuracy and its spread at every measure, a panel for each dataset; what the paper says as open marks."""
    experiment = summary.experiment
    legend = _row_entries(experiment)
    positions = _positions(experiment.measures)
    panels = []
    for dataset in experiment.datasets:
        bands, lines = [], []
        for number, entry in enumerate(legend):
            cells = [cell_of(summary, entry.name, dataset, measure) for measure in experiment.measures]
            bands += _band(cells, positions, entry, number)
            lines += _line(cells, positions, entry, number) + _published(cells, positions, entry, number)
        axis = {"title": {"text": plain(experiment.axis or "")}, "tickvals": positions, "ticktext": list(experiment.measures)}
        panels.append(_panel(dataset, bands + lines, axis, "test accuracy, %"))
    caption = "Mean over seeds; the band is one standard deviation to each side. Open diamonds with bars: the paper."
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
                data.append(_curve(epochs.round(1).tolist(), list(cell.losses), entry, number))
        panels.append(_panel(dataset, data, {"title": {"text": "epoch"}}, "loss"))
    where = f", at {place(experiment, measure)}" if experiment.protocol == "few-labels" else ""
    caption = (
        f"Mean loss over seeds{where}. Different objectives have different scales: the shape of a curve tells, not its height."
    )
    return Figure(f"loss-{experiment.name}", caption, panels, legend)


def fit_loss_figure(losses: Sequence[float]) -> Figure:
    epochs = list(range(1, len(losses) + 1))
    panel = _panel("", [_curve(epochs, list(losses), Entry("loss", 0), None)], {"title": {"text": "epoch"}}, "loss")
    return Figure("loss", "The training loss of every epoch.", [panel])


def map_figure(found: NodeMap) -> Figure:
    legend, data = [], []
    coloured = [name for name in found.group_names if name != NO_LABEL]
    for number, name in enumerate(found.group_names):
        members = np.flatnonzero(found.groups == number)
        colour: int | str = coloured.index(name) % COLOURS if name != NO_LABEL else QUIET
        symbol = SYMBOLS[coloured.index(name) // COLOURS % len(SYMBOLS)] if name != NO_LABEL else "circle"
        legend.append(Entry(f"{name} ({len(members):,})", colour, symbol=symbol))
        data.append(
            {
                "type": "scattergl",
                "mode": "markers",
                "x": np.round(found.points[members, 0].astype(float), 3).tolist(),
                "y": np.round(found.points[members, 1].astype(float), 3).tolist(),
                "customdata": members.tolist(),
                "hoverinfo": "none",
                "marker": {"size": _marker_size(len(found.groups)), "opacity": 0.8, "symbol": symbol},
                "meta": {"colour": colour, "entry": number, "part": "points"},
            }
        )
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": "", "showline": False}
    layout = {"xaxis": bare, "yaxis": {**bare, "scaleanchor": "x"}, "hovermode": "closest", "hoverdistance": 12}
    nodes = {
        "names": list(found.names),
        "labels": list(found.labels),
        "groups": [found.group_names[group] for group in found.groups.tolist()] if found.grouping == "cluster" else [],
        "nearest": found.nearest.tolist(),
        "similarities": np.round(found.similarities.astype(float), 3).tolist(),
    }
    return Figure("map", "", [Panel("", data, layout)], legend, nodes)


def weight_figure(found: WeightDiagnosis) -> Figure:
    panels = []
    if found.positive_share is not None:
        bars = {"chance": found.chance, "w⁺ on<br>other nodes": found.positive_share}
        panels.append(Panel("Share on the anchor's class", _bars(bars, "%{y:.1%}"), _bar_layout(".0%", "share of weight")))
    if found.negative_same is not None and found.negative_other is not None:
        means = {"uniform": 1.0, "w⁻,<br>same class": found.negative_same, "w⁻,<br>other classes": found.negative_other}
        panels.append(Panel("Mean weight of a negative", _bars(means, "%{y:.3f}"), _bar_layout(".1f", "mean w⁻")))
    return Figure("weights", "Grey: what weights without similarity would give.", panels)


def plain(text: str) -> str:
    """Text that plotly.js, which takes some HTML, shows as it is."""
    return escape(text, quote=False)


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
    """Measures as numbers where they are some, otherwise in equal steps."""
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


def _curve(x: list[Any], y: list[float], entry: Entry, number: int | None) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(entry.name),
        "x": x,
        "y": [float(f"{value:.5g}") if math.isfinite(value) else None for value in y],
        "hovertemplate": f"{plain(entry.name)}<br>epoch %{{x:.0f}}: %{{y:.4g}}<extra></extra>",
        "line": {"width": 1.8, "dash": entry.dash},
        "meta": {"colour": entry.colour, "entry": number, "part": "line"},
    }


def _bars(values: dict[str, float], shown: str) -> list[dict[str, Any]]:
    """One trace a bar: the first is what nothing would give, and quiet."""
    return [
        {
            "type": "bar",
            "x": [name],
            "y": [value],
            "texttemplate": shown,
            "textposition": "outside",
            "cliponaxis": False,
            "hovertemplate": f"%{{x}}: {shown}<extra></extra>",
            "width": 0.55,
            "meta": {"colour": SHADE if number == 0 else number - 1, "entry": None, "part": "bar"},
        }
        for number, (name, value) in enumerate(values.items())
    ]


def _panel(title: str, data: list[dict[str, Any]], xaxis: dict[str, Any], y_title: str) -> Panel:
    """With lines, or with the word that there are none yet."""
    layout: dict[str, Any] = {"xaxis": xaxis, "yaxis": {"title": {"text": y_title}}, "hovermode": "closest"}
    if not any(trace["x"] for trace in data):
        nothing = {"text": MISSING, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
        layout |= {"annotations": [nothing], "xaxis": {**xaxis, "range": [0, 1], "showticklabels": False}}
        layout["yaxis"] |= {"showticklabels": False}
    return Panel(title, data, layout)


def _bar_layout(ticks: str, y_title: str) -> dict[str, Any]:
    return {"xaxis": {}, "yaxis": {"title": {"text": y_title}, "tickformat": ticks, "rangemode": "tozero"}, "bargap": 0.4}


def _marker_size(nodes: int) -> float:
    return 7 if nodes < 500 else 5 if nodes < 5_000 else 3.5
