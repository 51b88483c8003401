"""Some nodes for all in a step: the settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphkin.errors import SettingError, check_whole
from graphkin.support.components import LATER, register


@register("Sampling")
@dataclass(frozen=True)
class Sampling:
    """Which nodes a step looks at; None: all of them.

    ``anchors`` nodes are drawn as anchors in each epoch, ``positives_sampled`` and ``negatives_sampled`` nodes as V_M and V_N.
    ``candidates`` nodes are drawn in each epoch to stand for all, together with ``near`` similar ones of every anchor: an
    estimate of the full loss. As many candidates as there are nodes are all of them, also where a plan would draw some.
    """

    anchors: int | None = None
    positives_sampled: int | None = None
    negatives_sampled: int | None = None
    candidates: int | None = field(default=None, metadata=LATER)
    near: int = field(default=8, metadata=LATER)

    def __post_init__(self) -> None:
        for name in ("anchors", "positives_sampled", "negatives_sampled"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), at_least=2)
        check_whole("near", self.near, at_least=0)
        if self.candidates is not None:
            check_whole("candidates", self.candidates, at_least=2)
            if self.own_sets:
                raise SettingError("candidates stand for all nodes: positives_sampled and negatives_sampled must be none.")

    @property
    def own_sets(self) -> bool:
        """Whether V_M or V_N is drawn."""
        return self.positives_sampled is not None or self.negatives_sampled is not None

    def samples(self, num_nodes: int) -> bool:
        """Whether some of so many nodes are drawn to stand for all."""
        return self.candidates is not None and self.candidates < num_nodes

    def takes_all(self, num_nodes: int) -> bool:
        """Whether so many nodes are asked for in every step."""
        return self.candidates is not None and self.candidates >= num_nodes
