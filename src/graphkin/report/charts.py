"""Small charts as inline SVG: places in the picture are computed here, and the template draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 34
"""margins, in the units of the picture"""


@dataclass(frozen=True)
class Scale:
    """Values from ``low`` to ``high`` on an axis, with the values that get a tick."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def part(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return (value - low) / (high - low)


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    kind: str
    words: str


@dataclass(frozen=True)
class Chart:
    """Marks over an x axis and a y axis, a line, and a level to compare with."""

    title: str
    x: Scale
    y: Scale
    marks: Sequence[Mark]
    line: Sequence[tuple[float, float]] = ()
    level: float | None = None
    size: tuple[int, int] = (300, 200)
    x_title: str = ""
    box: tuple[int, int, int, int] = field(init=False, default=(0, 0, 0, 0))
    """left, top, right and bottom of the area of the marks"""

    def __post_init__(self) -> None:
        width, height = self.size
        object.__setattr__(self, "box", (LEFT, TOP, width - RIGHT, height - BOTTOM))

    def at_x(self, value: float) -> float:
        left, _, right, _ = self.box
        return round(left + self.x.part(value) * (right - left), 1)

    def at_y(self, value: float) -> float:
        _, top, _, bottom = self.box
        return round(bottom - self.y.part(value) * (bottom - top), 1)

    @property
    def path(self) -> str:
        return "M" + " L".join(f"{self.at_x(x)} {self.at_y(y)}" for x, y in self.line)


def scale_of(values: Sequence[float], count: int = 4, *, low: float | None = None, high: float | None = None) -> Scale:
    """A scale that holds all values and the ends that are given, with ticks at round numbers."""
    ends = [*values, *(end for end in (low, high) if end is not None)]
    first, last = min(ends), max(ends)
    if first == last:
        first, last = first - 1, last + 1
    step = 10 ** math.floor(math.log10((last - first) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (last - first) / (step * factor) <= count + 0.5)
    if low is None:
        first = step * math.floor(first / step)
    if high is None:
        last = step * math.ceil(last / step)
    ticks = [step * number for number in range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1)]
    return Scale(first, last, [(tick, _number(tick)) for tick in ticks])


def log_scale(values: Sequence[float], low: float, high: float) -> Scale:
    """Ticks at the ends of the range and in the middle."""
    first, last = min(low, *values), max(high, *values)
    return Scale(first, last, [(value, _number(value)) for value in (low, math.sqrt(low * high), high)], log=True)


def word_scale(words: Sequence[str]) -> Scale:
    """Words at 0, 1, 2, ... with half a step around them."""
    return Scale(-0.5, len(words) - 0.5, [(place, word) for place, word in enumerate(words)])


def _number(value: Any) -> str:
    text = f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{float(text):g}" if "e" in text and abs(value) >= 1e-4 else text
