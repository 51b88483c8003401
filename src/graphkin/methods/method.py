"""A method is a value: components put together. :func:`plus` is the paper in one function (docs/math.md, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from graphkin.errors import SettingError, check_choice, unknown
from graphkin.execution import Sampling
from graphkin.methods.alike import ByAlikeness, instead_of
from graphkin.methods.optimiser import Optimiser
from graphkin.models.encoder import Encoder, check_encoder
from graphkin.models.views import TwoViews
from graphkin.objectives.contrast import Contrast
from graphkin.objectives.objective import Objective
from graphkin.similarity import Labels, Similarity
from graphkin.support.components import (
    LATER,
    SLOT,
    all_leaves,
    check_distinct,
    leaves,
    parts,
    register,
    takes_none,
    takes_several,
)
from graphkin.weights import Attract, OtherClasses, Repel, SameClass

PARTS = ("p", "n", "g", "f")
FEATURE_SCALES = ("auto", "rows", "columns", "none")


@register("Method")
@dataclass(frozen=True)
class Method:
    """An encoder, views, an objective, an optimiser and, where the objective allows it, sampling.

    With ``by_alikeness``, some settings are others on graphs whose neighbours are not alike.

    ``feature_scale`` says what is done to features first: "rows" divides them by their row sum, "columns" standardises columns
    and does to those of a table what is right for their kind, "none" leaves them. "auto" is "columns" for tables of anything
    but counts, and "rows" for all else, unless there are negative entries.
    """

    name: str
    encoder: Encoder = field(metadata=SLOT)
    views: TwoViews | None = field(metadata=SLOT)
    objective: Objective = field(metadata=SLOT)
    optimiser: Optimiser = field(default=Optimiser(), metadata=SLOT)
    sampling: Sampling | None = field(default=Sampling(), metadata=SLOT)
    feature_scale: str = field(default="auto")
    by_alikeness: ByAlikeness | None = field(default=None, metadata=SLOT | LATER)

    def __post_init__(self) -> None:
        check_choice("feature_scale", self.feature_scale, FEATURE_SCALES)
        check_encoder(self.encoder)
        if not isinstance(self.objective, Objective):
            raise SettingError(f"objective must be an objective such as Contrast(), found {type(self.objective).__name__}.")
        if not self.objective.samples:
            object.__setattr__(self, "sampling", None)
        elif self.sampling is None:
            object.__setattr__(self, "sampling", Sampling())
        self.objective.check(self)
        check_distinct(self, self.name)

    def __repr__(self) -> str:
        encoder, objective = type(self.encoder).__name__, type(self.objective).__name__
        return f"Method({self.name!r}: {encoder}, {objective}, {len(self.settings())} settings)"

    @property
    def similarity(self) -> Any:
        """The settings of the similarity that the objective weighs nodes by; None where it has none."""
        return getattr(self.objective, "similarity", None)

    @property
    def needs_labels(self) -> bool:
        return self.objective.needs_labels

    def settings(self) -> dict[str, Any]:
        """All settings by name, flat, as :meth:`configure` takes them."""
        return {name: value for _, name, value in all_leaves(self) if name != "name"}

    def configure(self, /, **settings: Any) -> Method:
        """The same method with other settings: ``GRACE.configure(tau=0.5, hidden=128, drop_edges=(0.1, 0.2))``.

        A setting that is given holds on every graph.
        """
        known = self.settings()
        for name in settings:
            if name not in known:
                raise unknown(f"setting for {self.name}", name, known)
        settings = {other: None for name in settings for other in instead_of(name) if other in known} | settings
        configured: Method = _configured(self, settings)
        return configured


def _configured(component: Any, settings: dict[str, Any]) -> Any:
    changes = {entry.name: _as_given(component, entry.name, settings[entry.name]) for entry in _named(component, settings)}
    if hasattr(component, "changed"):
        changes = component.changed(changes)
    for entry, inside in parts(component):
        changed = inside if inside is None else _configured(inside, settings)
        if changed is not inside:
            changes[entry.name] = changed
    return replace(component, **changes) if changes else component


def _named(component: Any, settings: dict[str, Any]) -> Iterator[Any]:
    return (entry for entry, _ in leaves(component) if entry.name in settings)


def _as_given(component: Any, name: str, value: Any) -> Any:
    """Lists become tuples. None and "none" are the same: a command line cannot tell them apart, and TOML has only the word.

    For a setting of any number of values, a command line writes a single one as it is, and none of them as "none".
    """
    nothing = value is None or (isinstance(value, str) and value == "none")
    if not isinstance(value, list | tuple) and takes_several(component, name):
        return () if nothing else (value,)
    if nothing:
        return None if takes_none(component, name) else "none"
    return tuple(value) if isinstance(value, list) else value


def plus(method: Method, part: str | None = None) -> Method:
    """The enhanced objective on a base method: similar nodes attract, dissimilar nodes repel.

    ``part`` keeps a part of it, as the paper's ablations do: "p" positive weights only, "n" negative weights only,
    "g" structure only (β = 0), "f" features only (β = 1).
    """
    if part is not None:
        check_choice("part", part, PARTS)
    objective: Any = method.objective
    if not objective.weighted:
        raise SettingError(
            f"'+' weighs positives and negatives by similarity, and the objective of {method.name} "
            f"({type(objective).__name__}) has no such weights to replace."
        )
    similarity = Similarity()
    if part in ("g", "f"):
        similarity = replace(similarity, beta=0.0 if part == "g" else 1.0)
    enhanced = replace(
        objective,
        similarity=similarity,
        positives=objective.positives if part == "n" else Attract(),
        negatives=objective.negatives if part == "p" else Repel(),
    )
    return replace(method, name=f"{method.name}+" + (f"({part})" if part else ""), objective=enhanced)


def ideal(method: Method) -> Method:
    """The objective with labels that the enhanced one estimates, Eq. (multi_contrastive_loss): an upper bound to compare with.

    It sees every label, those of test nodes too, and its embeddings prove nothing else.
    """
    objective = method.objective
    if not isinstance(objective, Contrast):
        raise SettingError(f"the ideal objective is for methods with two views, found {method.name}.")
    by_labels = replace(objective, similarity=Labels(), positives=SameClass(), negatives=OtherClasses(), pooling="sum")
    return replace(method, name=f"{method.name.partition('+')[0]}-ideal", objective=by_labels)
