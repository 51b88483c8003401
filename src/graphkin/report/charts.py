"""Charts as inline SVG: places in the picture are computed here, and the template draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 34
"""margins, in the units of the picture"""
SHAPES = {
    "circle": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "diamond": "m0 -5l5 5l-5 5l-5 -5z",
    "square": "m-3.4 -3.4h6.8v6.8h-6.8z",
    "triangle": "m0 -4.8l4.8 8.4h-9.6z",
    "cross": "m-1.6 -4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
}
"""paths around a point"""
SYMBOLS = tuple(SHAPES)


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
    """a class of the style sheet"""
    words: str
    symbol: str = SYMBOLS[0]
    spread: float = 0.0
    """half the length of its error bar"""

    @property
    def shape(self) -> str:
        return SHAPES[self.symbol]


@dataclass(frozen=True)
class Series:
    """What an entry of the legend shows and hides."""

    name: str
    colour: str
    number: int | None = None
    """of its entry in the legend"""
    dashes: str = ""
    line: Sequence[tuple[float, float]] = ()
    band: Sequence[tuple[float, float, float]] = ()
    """x with a low and a high value"""
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Chart:
    """Series over an x axis and a y axis, and a level to compare with."""

    title: str
    x: Scale
    y: Scale
    series: Sequence[Series]
    level: float | None = None
    size: tuple[int, int] = (300, 200)
    x_title: str = ""
    y_title: str = ""
    box: tuple[int, int, int, int] = field(init=False, default=(0, 0, 0, 0))
    """left, top, right and bottom of the area of the series"""

    def __post_init__(self) -> None:
        width, height = self.size
        object.__setattr__(self, "box", (LEFT, TOP, width - RIGHT, height - BOTTOM))

    @property
    def empty(self) -> bool:
        return not any(one.line or one.marks for one in self.series)

    def at_x(self, value: float) -> float:
        left, _, right, _ = self.box
        return round(left + self.x.part(value) * (right - left), 1)

    def at_y(self, value: float) -> float:
        _, top, _, bottom = self.box
        return round(bottom - self.y.part(value) * (bottom - top), 1)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.at_x(x):g} {self.at_y(y):g}" for x, y in points)

    def outline(self, band: Sequence[tuple[float, float, float]]) -> str:
        """Once around a band."""
        return self.path([(x, high) for x, _, high in band] + [(x, low) for x, low, _ in reversed(band)]) + "Z"


def scale_of(values: Sequence[float], count: int = 4, *, low: float | None = None, high: float | None = None) -> Scale:
    """A scale that holds all values and the ends that are given, with ticks at round numbers."""
    ends = [*values, *(end for end in (low, high) if end is not None)] or [0.0, 1.0]
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
    return Scale(first, last, [(tick, _tick(tick, step)) for tick in ticks])


def log_scale(values: Sequence[float], low: float, high: float) -> Scale:
    """Ticks at the ends of the range and in the middle."""
    first, last = min(low, *values), max(high, *values)
    return Scale(first, last, [(value, _number(value)) for value in (low, math.sqrt(low * high), high)], log=True)


def word_scale(words: Sequence[str]) -> Scale:
    """Words at 0, 1, 2, ... with half a step around them."""
    return Scale(-0.5, len(words) - 0.5, [(place, word) for place, word in enumerate(words)])


def _tick(value: float, step: float) -> str:
    """With as many digits as the step has."""
    digits = -math.floor(math.log10(step) + 1e-9)
    return f"{value:.2g}" if digits > 4 else f"{value:,.{max(digits, 0)}f}"


def _number(value: float) -> str:
    text = f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{float(text):g}" if "e" in text and abs(value) >= 1e-4 else text
