"""Figures of one run: its loss, the map of its embeddings, and what its weights did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphkin.report.figures import COLOURS, QUIET, Entry, Figure, Panel, curve, panel
from graphkin.report.map import NO_LABEL, NodeMap
from graphkin.report.weights import WeightDiagnosis

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross")
SHADE = "shade"
"""the colour of a bar that is shown for comparison"""


def fit_loss_figure(losses: Sequence[float]) -> Figure:
    epochs = list(range(1, len(losses) + 1))
    line = curve(epochs, list(losses), Entry("loss", 0), None)
    return Figure("loss", "The training loss of every epoch.", [panel("", [line], {"title": {"text": "epoch"}}, "loss")])


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
    return Figure("weights", "Grey: the values for weights that ignore similarity.", panels)


def _bars(values: dict[str, float], shown: str) -> list[dict[str, Any]]:
    """One trace per bar; the first is the reference, in grey."""
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


def _bar_layout(ticks: str, y_title: str) -> dict[str, Any]:
    return {"xaxis": {}, "yaxis": {"title": {"text": y_title}, "tickformat": ticks, "rangemode": "tozero"}, "bargap": 0.4}


def _marker_size(nodes: int) -> float:
    return 7 if nodes < 500 else 5 if nodes < 5_000 else 3.5
