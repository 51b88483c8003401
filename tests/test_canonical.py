"""CCA-SSG's objective: against loops, its laws, and in training."""

from __future__ import annotations

import pytest
import torch

from graphkin import Graph, evaluate, fit, method_named
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.methods import plus
from graphkin.objectives.canonical import Canonical, canonical
from tests import paper


def views(nodes: int = 9, width: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, nodes, width, generator=draw, dtype=torch.float64)
    return u, v


def test_the_loss_is_the_papers() -> None:
    u, v = views()
    for decorrelation in (0.0, 1e-3, 2.0):
        expected = paper.canonical(u.tolist(), v.tolist(), decorrelation)
        assert canonical(u, v, decorrelation).item() == pytest.approx(expected, abs=1e-10)


def test_scale_and_origin_of_columns_do_not_matter() -> None:
    u, v = views()
    scaled = canonical(3 * u + 1, torch.tensor([1.0, 2.0, 5.0, 0.1], dtype=torch.float64) * v - 2, 0.1)
    assert scaled.item() == pytest.approx(canonical(u, v, 0.1).item(), abs=1e-10)
    assert canonical(u, v, 0.1).item() == pytest.approx(canonical(v, u, 0.1).item(), abs=1e-10)


def test_a_column_that_is_the_same_for_all_nodes_is_harmless() -> None:
    u, v = views()
    u = u.clone()
    u[:, 0] = 3
    u.requires_grad_()
    canonical(u, v, 0.1).backward()
    assert u.grad is not None and torch.isfinite(u.grad).all()


def test_it_learns_more_than_an_untrained_encoder_knows(cora: Graph) -> None:
    method = method_named("cca-ssg").configure(hidden=64, epochs=40)
    fitted = fit(cora, method, device="cpu")
    assert fitted.losses[-1] < fitted.losses[0]
    scores = [evaluate(rows, cora, splits=3).mean for rows in (fitted.embed(cora), untrained(cora, method))]
    assert scores[0] > scores[1] + 10


def test_the_authors_settings() -> None:
    assert method_named("cca-ssg", "citeseer").settings()["layers"] == 1
    cs = method_named("cca-ssg", "cs").settings()
    assert (cs["hops"], cs["norm"]) == (0, "batch"), "on CS they look at no edge"


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"decorrelation must be .*found -1"):
        Canonical(decorrelation=-1)
    with pytest.raises(SettingError, match=r"cca-ssg .*Canonical.*has no"):
        plus(method_named("cca-ssg"))
