"""Contenders on one problem: each is checked against the definition and, where it agrees, timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from graphkin.bench.measure import cost
from graphkin.bench.results import Row

ALLOWED = {"float32": 1e-3, "tf32": 5e-3, "bf16": 2e-2}
"""relative error of the gradient up to which a contender is right"""


class Contender(NamedTuple):
    name: str
    precision: str
    loss: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    """of both views, for all or for chosen anchors"""


class Views(NamedTuple):
    """Random embeddings, and the anchors on which contenders are checked (None: all)."""

    u: Tensor
    v: Tensor
    checked: Tensor | None = None

    @staticmethod
    def draw(nodes: int, width: int, device: torch.device) -> Views:
        draw = torch.Generator(device).manual_seed(0)
        u = F.normalize(torch.randn(nodes, width, generator=draw, device=device), dim=1)
        noise = F.normalize(torch.randn(nodes, width, generator=draw, device=device), dim=1)
        return Views(u, F.normalize(u + noise, dim=1))

    def result(self, contender: Contender, anchors: Tensor | None) -> tuple[Tensor, Tensor]:
        """Loss and gradient."""
        u, v = self.u.detach().requires_grad_(), self.v.detach().requires_grad_()
        loss = contender.loss(u, v, anchors)
        return loss.detach(), torch.stack(torch.autograd.grad(loss, (u, v)))


def checked_and_timed(
    problem: dict[str, Any], contenders: Iterable[Contender], views: Views, definition: Contender, repeats: int
) -> Iterator[Row]:
    expected = tuple(part.cpu() for part in views.result(definition, views.checked))
    del definition  # and the N×N weights that it holds, which would count as memory of the others
    for contender in contenders:
        try:
            error = _error(views.result(contender, views.checked), expected)
        except torch.OutOfMemoryError:
            yield Row(problem, contender.name, failure="out of memory")
            continue
        if not error <= ALLOWED[contender.precision]:
            yield Row(problem, contender.name, error, failure=f"disagrees with the definition: error {error:.1e}")
            continue

        def step(contender: Contender = contender) -> None:
            views.result(contender, None)

        yield cost(problem, contender.name, step, views.u.device, error=error, repeats=repeats)


def _error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    loss, gradient = (part.cpu() for part in found)
    error = float((gradient - expected[1]).norm() / expected[1].norm())
    return max(error, float((loss - expected[0]).abs() / max(1.0, float(expected[0].abs()))))
