"""Settings that depend on whether neighbours in a graph are alike."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from graphkin.errors import check_range
from graphkin.graphs.alikeness import Alikeness
from graphkin.models.encoders import Branches
from graphkin.support.components import register

PREFIX = "unlike_"
NO_NOISE = 1.1
"""times the variance of noise from which on features are taken to say something"""


@register("ByAlikeness")
@dataclass(frozen=True)
class ByAlikeness:
    """Other settings for graphs whose neighbours are hardly more alike than other nodes (docs/kin.md).

    Where neighbours are less alike than ``unlike_below``, ``unlike_beta`` takes the place of ``beta`` and ``unlike_free`` that
    of ``free``; none keeps what there is. Where features are like noise, edges alone can be trusted, and nothing changes.
    """

    unlike_below: float = 0.08
    unlike_beta: float | None = 1.0
    unlike_free: tuple[str, ...] | str | None = ("x", "hop1*0.4", "hop2*0.3", "ppr0.2*0.3")

    def __post_init__(self) -> None:
        check_range("unlike_below", self.unlike_below, at_least=0, at_most=1)
        if self.unlike_beta is not None:
            check_range("unlike_beta", self.unlike_beta, at_least=0, at_most=1)
        if self.unlike_free is not None:
            several = (self.unlike_free,) if isinstance(self.unlike_free, str) else self.unlike_free
            Branches(free=several)  # which refuses what is no piece
            object.__setattr__(self, "unlike_free", several)

    def settings_for(self, found: Alikeness | None, known: Collection[str] = ("beta", "free")) -> dict[str, Any]:
        """The settings, among those that a method knows, that take the place of others."""
        if found is None or found.neighbours >= self.unlike_below or found.features < NO_NOISE:
            return {}
        instead = {"beta": self.unlike_beta, "free": self.unlike_free}
        return {name: value for name, value in instead.items() if value is not None and name in known}

    def reason(self, found: Alikeness, instead: dict[str, Any]) -> str:
        """What took the place of other settings, and why."""
        told = ", ".join(f"{name}={_shown(value)}" for name, value in instead.items())
        known = f"{found.neighbours:.2f}, below {self.unlike_below:g}"
        return f"{told} (neighbours are hardly more alike than other nodes: {known})"


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else f"{value:g}"
