"""An encoder that takes something else than features, with the fewest hooks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphkin import GRACE, Graph, fit
from graphkin.evaluation.baselines import untrained
from graphkin.models.views import View


@dataclass(frozen=True)
class Centred:
    """A linear layer on features less the mean of those it was trained on."""

    width: int = 4

    sees_edges: ClassVar[bool] = False

    def learn(self, graph: Graph, x: Tensor) -> dict[str, Tensor]:
        return {"mean": x.mean(dim=0)}

    def inputs(self, graph: Graph, x: Tensor, learned: dict[str, Tensor]) -> Tensor:
        return x - learned["mean"]

    def build(self, num_features: int, generator: torch.Generator) -> nn.Module:
        return CentredEncoder(num_features, self.width)


class CentredEncoder(nn.Module):
    mean: Tensor

    def __init__(self, num_features: int, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(num_features, width)
        self.register_buffer("mean", torch.zeros(num_features))
        self.steps = 0

    def learned(self) -> dict[str, Tensor]:
        return {"mean": self.mean}

    def after_step(self) -> None:
        self.steps += 1

    def forward(self, x: Tensor, view: View, generator: torch.Generator | None = None) -> Tensor:
        output: Tensor = self.layer(x)
        return output


METHOD = replace(GRACE, encoder=Centred(), feature_scale="none").configure(epochs=2)


def test_another_graph_is_seen_as_the_one_of_training_was(small: Graph) -> None:
    """Without ``settle`` and ``embed``."""
    assert isinstance(small.x, Tensor)
    fitted = fit(small, METHOD, device="cpu")
    encoder: Any = fitted.modules["encoder"]
    other = torch.rand(40, 16, generator=torch.Generator().manual_seed(1))
    for rows in (small.x, other):
        torch.testing.assert_close(fitted.embed(replace(small, x=rows)), encoder.layer(rows - small.x.mean(dim=0)).detach())
    assert encoder.steps == 2


def test_an_untrained_one_has_learned_it_too(small: Graph) -> None:
    rows = untrained(small, METHOD)
    centred = rows - rows.mean(dim=0)
    assert isinstance(small.x, Tensor) and float(centred.norm()) > 0
    other = Graph.from_arrays(small.x + 3, small.edge_index)
    torch.testing.assert_close(untrained(other, METHOD), rows, atol=1e-5, rtol=0)
