r"""The objective of CCA-SSG: both views agree in every column, and no two columns say the same (docs/math.md, section 5).

No node repels another, so that a step costs as much as encoding, and d² for the correlations of d columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import check_range
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.support.components import register
from graphkin.support.randomness import generator

SMALLEST_DEVIATION = 1e-6
"""of a column: one that is the same for all nodes stays zero"""


def canonical(u: Tensor, v: Tensor, decorrelation: float) -> Tensor:
    r"""The definition, with ũ and ṽ the columns of both views, standardised.

    .. math:: ℓ = -\mathrm{tr}(\tilde u^T \tilde v) / N
        + λ \left( \|\tilde u^T \tilde u / N - I\|^2 + \|\tilde v^T \tilde v / N - I\|^2 \right)

    The deviation of a column is that of a sample (N − 1).
    """
    u, v = standardised(u), standardised(v)
    nodes = len(u)
    agreement = (u * v).sum() / nodes
    identity = torch.eye(u.size(1), dtype=u.dtype, device=u.device)
    redundancy = sum(((rows.T @ rows / nodes - identity).square().sum() for rows in (u, v)), u.new_zeros(()))
    return decorrelation * redundancy - agreement


def standardised(rows: Tensor) -> Tensor:
    """Every column with a mean of 0 and a deviation of 1."""
    return (rows - rows.mean(dim=0)) / rows.std(dim=0).clamp(min=SMALLEST_DEVIATION)


@register("Canonical")
@dataclass(frozen=True)
class Canonical(Objective):
    """CCA-SSG: invariance, plus ``decorrelation`` (λ) times what columns have in common."""

    decorrelation: float = 1e-3

    recordable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range("decorrelation", self.decorrelation, at_least=0)

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        return {}

    def task(self, setup: Setup) -> Task:
        return CanonicalTask(setup)


class CanonicalTask(Task):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.decorrelation: float = setup.method.objective.decorrelation
        self.x, self.plan = setup.x, setup.method.views.plan(setup.graph)
        self.sources = {name: generator(setup.seed, name, setup.device) for name in ("views", "noise")}

    def loss(self) -> Tensor:
        views = [self.plan.draw(view, self.sources["views"]) for view in (0, 1)]
        u, v = (self.modules["encoder"](self.x, view, self.sources["noise"]) for view in views)
        return canonical(u, v, self.decorrelation)
