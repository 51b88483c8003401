"""Settings that depend on whether neighbours in a graph are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from graphkin.errors import check_flag, check_range, check_whole
from graphkin.graphs.alikeness import Alikeness
from graphkin.models.encoders import Branches
from graphkin.models.encoders.branches import MOST_HOPS
from graphkin.support.components import LATER, register

MIXED, UNLIKE, NOISE, FEW = "mixed_", "unlike_", "noise_", "few_"
"""before the names of settings that take the place of others: where many neighbours are not alike, where hardly any are, where
features are noise, and where they are few"""
BELOW = ("mixed_below", "unlike_below")
NO_NOISE = 1.1
"""times the variance of noise from which on features are taken to say something"""


@register("ByAlikeness")
@dataclass(frozen=True)
class ByAlikeness:
    """Other settings for graphs whose neighbours are little or hardly more alike than other nodes (docs/kin.md).

    Where neighbours are less alike than ``mixed_below``, ``mixed_smooth_hops`` takes the place of ``smooth_hops``: an average
    over many neighbours evens out that they differ. Where they are less alike than ``unlike_below``, features are trusted
    instead of edges: ``unlike_beta`` takes the place of ``beta`` and ``unlike_free`` that of ``free``. Where that is because
    features are like noise, edges are trusted instead: ``noise_beta``, ``noise_free`` and ``noise_branches`` are used.

    Up to ``few_features`` features leave room to be smoothed in several ways: ``few_branches`` and ``few_free`` take them over
    few and over many hops, and ``few_standardised`` makes what many hops leave of them count as much as they do. They take
    the place of all others; None keeps what there is.
    """

    unlike_below: float = 0.08
    unlike_beta: float | None = 1.0
    unlike_free: tuple[str, ...] | str | None = ("x", "hop1*0.4", "hop2*0.3", "ppr0.2*0.3")
    noise_beta: float | None = field(default=0.0, metadata=LATER)
    noise_free: tuple[str, ...] | str | None = field(default=("hop8", "ppr0.05*0.5"), metadata=LATER)
    noise_branches: tuple[str, ...] | str | None = field(default=("ppr0.05", "hop4+hop8"), metadata=LATER)
    mixed_below: float = field(default=0.25, metadata=LATER)
    mixed_smooth_hops: int | None = field(default=2, metadata=LATER)
    few_branches: tuple[str, ...] | str | None = field(default=("x", "x+hop1+hop2", "ppr0.1+hop4+hop8"), metadata=LATER)
    few_free: tuple[str, ...] | str | None = field(
        default=("x*0.4", "hop1*0.4", "hop2*0.4", "hop4*0.4", "hop8*0.4", "ppr0.05*0.4"), metadata=LATER
    )
    few_standardised: bool | None = field(default=True, metadata=LATER)

    def __post_init__(self) -> None:
        for name in BELOW:
            check_range(name, getattr(self, name), at_least=0, at_most=1)
        if self.mixed_smooth_hops is not None:
            check_whole("mixed_smooth_hops", self.mixed_smooth_hops, at_least=0, at_most=MOST_HOPS)
        for name in ("unlike_beta", "noise_beta"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), at_least=0, at_most=1)
        if self.few_standardised is not None:
            check_flag("few_standardised", self.few_standardised)
        for name in ("unlike_free", "noise_free", "noise_branches", "few_free", "few_branches"):
            given = getattr(self, name)
            if given is not None:
                several = (given,) if isinstance(given, str) else given
                part: dict[str, Any] = {name.partition("_")[2]: several}
                Branches(**part)  # which refuses what is no piece
                object.__setattr__(self, name, several)

    def settings_for(self, found: Alikeness | None, known: Mapping[str, Any], num_features: int) -> dict[str, Any]:
        """The settings that take the place of a method's ``known`` ones; what is empty there stays so."""
        if found is None:
            return {}
        instead: dict[str, Any] = {}
        alike = max(found.neighbours, 0.0)
        if alike < self.unlike_below:
            instead |= self._named(UNLIKE if found.features >= NO_NOISE else NOISE)
        if alike < self.mixed_below and known.get("branches"):
            instead |= self._named(MIXED)
        if num_features <= min(known.get("few_features", 0), known.get("axes", 0)) and known.get("branches"):
            instead |= self._for_few()
        return {name: value for name, value in instead.items() if value is not None and known.get(name, ()) != ()}

    def _for_few(self) -> dict[str, Any]:
        """Columns are standardised for these branches or free parts, not for others that were given."""
        found = {name: value for name, value in self._named(FEW).items() if value is not None}
        return found if "branches" in found or "free" in found else {}

    def _named(self, prefix: str) -> dict[str, Any]:
        names = [entry.name for entry in fields(self) if entry.name.startswith(prefix) and entry.name not in BELOW]
        return {name.removeprefix(prefix): getattr(self, name) for name in names}

    def reason(self, found: Alikeness, instead: dict[str, Any]) -> str:
        """What took the place of other settings, and why."""
        few = {name: value for name, value in self._for_few().items() if instead.get(name, ()) == value}
        others = {name: value for name, value in instead.items() if name not in few}
        told = [f"{_told(few)} (there are few features)"] if few else []
        if not others:
            return told[0]
        unlike = max(found.neighbours, 0.0) < self.unlike_below
        if unlike and found.features < NO_NOISE:
            why = "the features look like noise"
        else:
            how, limit = ("hardly", self.unlike_below) if unlike else ("little", self.mixed_below)
            why = f"neighbours are {how} more alike than other nodes: {found.neighbours:.2f}, below {limit:g}"
        return "; ".join([f"{_told(others)} ({why})", *told])


def instead_of(name: str) -> tuple[str, ...]:
    """The settings that may take the place of this one, which holds where it is given."""
    others = [f"{prefix}{name}" for prefix in (MIXED, UNLIKE, NOISE, FEW)]
    return (*others, *(f"{FEW}{name.removeprefix(prefix)}" for prefix in (MIXED, UNLIKE, NOISE) if name.startswith(prefix)))


def _told(instead: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in instead.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else f"{value:g}"
