"""Figures as data for plotly.js. A trace names a place in the palette; the theme of the page chooses the colour."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from graphkin.report.reading import MISSING

COLOURS = 15
"""in the palette of the style sheet"""
QUIET = "quiet"
"""the colour of lines that are shown for comparison"""


@dataclass(frozen=True)
class Entry:
    """An entry of the legend, which shows and hides its traces."""

    name: str
    colour: int | str
    dash: str = "solid"
    symbol: str = ""
    hidden: bool = False
    """until the reader clicks on it"""


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
    """of a map: names, labels and nearest nodes"""

    @property
    def columns(self) -> int:
        """At most three side by side; no panel stands alone in a row unless it has to."""
        count = len(self.panels)
        return count if count <= 3 else 3 if count % 3 == 0 else 2

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def plain(text: str) -> str:
    """Text as plotly.js, which understands some HTML, shows it unchanged."""
    return escape(text, quote=False)


def panel(title: str, data: list[dict[str, Any]], xaxis: dict[str, Any], y_title: str) -> Panel:
    """A panel of lines; without any, it says so."""
    layout: dict[str, Any] = {"xaxis": xaxis, "yaxis": {"title": {"text": y_title}}, "hovermode": "closest"}
    if not any(trace["x"] for trace in data):
        nothing = {"text": MISSING, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
        layout |= {"annotations": [nothing], "xaxis": {**xaxis, "range": [0, 1], "showticklabels": False}}
        layout["yaxis"] |= {"showticklabels": False}
    return Panel(title, data, layout)


def curve(x: list[Any], y: list[float], entry: Entry, number: int | None) -> dict[str, Any]:
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
