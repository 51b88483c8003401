"""Figures as data: panels beside each other, and a legend that shows and hides their series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphkin.report.charts import SHAPES, SYMBOLS, Chart

COLOURS = 15
"""in the palette of the style sheet"""
QUIET = "quiet"
"""the colour of what is shown for comparison"""
DASHES = {"solid": "", "dash": "7 3", "dot": "2 3", "dashdot": "7 3 2 3", "long": "12 4"}


@dataclass(frozen=True)
class Entry:
    """An entry of the legend, which shows and hides its series."""

    name: str
    colour: str
    """a colour of the style sheet, without its two dashes"""
    dash: str = "solid"
    symbol: str = SYMBOLS[0]
    hatch: int | None = None
    """the angle of the lines that fill its band"""
    count: int | None = None

    @property
    def dashes(self) -> str:
        return DASHES[self.dash]

    @property
    def shape(self) -> str:
        return SHAPES[self.symbol]


@dataclass(frozen=True)
class Figure:
    key: str
    caption: str
    panels: Sequence[Chart]
    legend: Sequence[Entry] = ()

    @property
    def columns(self) -> int:
        return side_by_side(len(self.panels))


def side_by_side(panels: int) -> int:
    """At most three; no panel stands alone in a row unless it has to."""
    return panels if panels <= 3 else 3 if panels % 3 == 0 else 2


def colour(number: int) -> str:
    return f"c{number % COLOURS}"
