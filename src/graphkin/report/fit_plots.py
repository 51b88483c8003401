"""What the page of one run draws: its loss, the map of its embeddings, and what its weights did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphkin.report.charts import SYMBOLS
from graphkin.report.figures import COLOURS, QUIET, Entry, Figure, colour
from graphkin.report.map import NO_LABEL, NodeMap
from graphkin.report.plots import curve, loss_chart
from graphkin.report.weights import WeightDiagnosis

SHADE = "shade"
"""the colour of a bar that is shown for comparison"""
SPAN = 10_000
"""places on the map are whole numbers, so many along its longer side"""
COSINES = 10**6
"""in one"""
STRETCH = 1.35
"""how much longer than the other an axis of t-SNE, which has no meaning, may be drawn"""
FEW, STRETCH_OF_FEW = 50, 6.0
"""so few nodes may be drawn further apart, since they often lie on a line"""


def fit_loss_figure(losses: Sequence[float]) -> Figure:
    line = curve(range(1, len(losses) + 1), losses, Entry("loss", colour(0)), None)
    return Figure("loss", "The training loss of every epoch.", [loss_chart("", [line], (560, 240))])


@dataclass(frozen=True)
class MapFigure:
    legend: Sequence[Entry]
    aspect: float
    """width by height that suit the map"""
    nodes: dict[str, Any]
    """for map.js: places, groups, names and nearest nodes"""


def map_figure(found: NodeMap) -> MapFigure:
    shown = len(found.points)
    low = found.points.min(axis=0).astype(float)
    extent = np.ptp(found.points, axis=0).astype(float)
    places = np.rint((found.points - low) / (extent.max() or 1) * SPAN).astype(int)
    nodes = {
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "stretch": 1.0 if found.layout == "pca" else STRETCH_OF_FEW if shown <= FEW else STRETCH,
        "names": list(found.names),
        "groups": found.groups.tolist(),
        "groupNames": list(found.group_names),
        "nearest": found.nearest.tolist(),
        "cosines": np.rint(found.similarities.astype(float) * COSINES).astype(int).tolist(),
    }
    counts = np.bincount(found.groups[:shown], minlength=len(found.group_names))
    ratio = float(extent[0] / extent[1]) if extent[1] > 0 else 2.0
    return MapFigure(_groups(found.group_names, counts.tolist()), round(min(max(ratio, 1.0), 2.0), 3), nodes)


def _groups(names: Sequence[str], counts: Sequence[int]) -> list[Entry]:
    """Each with its own colour, and beyond the palette with another symbol; nodes without a label are quiet."""
    legend, number = [], 0
    for name, count in zip(names, counts, strict=True):
        if name == NO_LABEL:
            legend.append(Entry(name, QUIET, count=count))
        else:
            legend.append(Entry(name, colour(number), symbol=SYMBOLS[number // COLOURS % len(SYMBOLS)], count=count))
            number += 1
    return legend


@dataclass(frozen=True)
class Bar:
    name: str
    text: str
    part: float
    """of the longest bar"""
    colour: str


def weight_bars(found: WeightDiagnosis) -> dict[str, list[Bar]]:
    """By title; the first bar of each is what weights that ignore similarity would give."""
    bars = {}
    if found.positive_share is not None:
        shares = {"chance": found.chance, "w⁺ on other nodes": found.positive_share}
        bars["Share of the weight on the anchor's class"] = _bars(shares, "{:.1%}")
    if found.negative_same is not None and found.negative_other is not None:
        means = {"uniform": 1.0, "w⁻, same class": found.negative_same, "w⁻, other classes": found.negative_other}
        bars["Mean weight of a negative"] = _bars(means, "{:.3f}")
    return bars


def _bars(values: dict[str, float], form: str) -> list[Bar]:
    longest = max(values.values()) or 1
    return [
        Bar(name, form.format(value), value / longest, SHADE if number == 0 else colour(number - 1))
        for number, (name, value) in enumerate(values.items())
    ]
