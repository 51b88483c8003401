"""What an evaluation gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scores:
    """The values of each measure in percent, one for each split or repetition; the first measure is the main one."""

    protocol: str
    values: dict[str, tuple[float, ...]]
    chosen: tuple[str, ...] = ()
    """which row each value is of, where one was chosen among several"""

    @property
    def test(self) -> tuple[float, ...]:
        return next(iter(self.values.values()))

    @property
    def mean(self) -> float:
        return float(np.mean(self.test))

    @property
    def std(self) -> float:
        """The sample standard deviation; 0 for one value."""
        return _spread(self.test)

    def as_dict(self) -> dict[str, Any]:
        summary: dict[str, Any] = {"protocol": self.protocol}
        for name, values in self.values.items():
            summary |= {f"{name}_mean": float(np.mean(values)), f"{name}_std": _spread(values), name: list(values)}
        if self.chosen:
            summary["chosen"] = list(self.chosen)
        return summary

    def __repr__(self) -> str:
        return f"Scores({self.protocol!r}: {self})"

    def __str__(self) -> str:
        shown = [(name, values) for name, values in self.values.items() if not name.startswith("val_")]
        parts = [
            f"{name} {np.mean(values):.2f} %" + (f" ± {_spread(values):.2f}" if len(values) > 1 else "")
            for name, values in shown
        ]
        return ", ".join(parts) + (f" ({len(self.test)} times)" if len(self.test) > 1 else "")


def _spread(values: tuple[float, ...]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
