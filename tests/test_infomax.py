"""The objective of DGI and MVGRL, and MVGRL's encoder: against loops and dense algebra, and in training."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphkin import Graph, evaluate, fit, method_named
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.methods import plus
from graphkin.models.encoders.two_sights import TwoSights
from graphkin.models.views import whole_graph
from graphkin.objectives.infomax import Infomax, InfomaxTask, infomax
from graphkin.training.plan import plan
from tests import paper


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_the_loss_is_the_papers(blocks: int) -> None:
    draw = torch.Generator().manual_seed(blocks)
    true, shuffled = ([torch.randn(7, 3, generator=draw, dtype=torch.float64) for _ in range(blocks)] for _ in range(2))
    weight = torch.randn(3, 3, generator=draw, dtype=torch.float64)
    one, other = ([block.tolist() for block in side] for side in (true, shuffled))
    assert infomax(true, shuffled, weight).item() == pytest.approx(paper.infomax(one, other, weight.tolist()), abs=1e-10)


def test_nothing_is_known_at_first() -> None:
    zero = torch.zeros(4, 2)
    assert infomax([zero], [zero], torch.eye(2)).item() == pytest.approx(torch.log(torch.tensor(2.0)).item())


def test_one_sight_is_the_edges_and_the_other_their_diffusion(small: Graph) -> None:
    encoder = TwoSights(hidden=6, restart=0.3).build(16, torch.Generator().manual_seed(0)).eval()
    view = whole_graph(small)
    dense = view.adjacency.to_dense()
    diffusion = 0.3 * torch.linalg.inv(torch.eye(40) - 0.7 * dense)
    with torch.no_grad():
        for bias in encoder.biases:
            bias.uniform_(-1, 1)
        sights = [
            torch.nn.functional.leaky_relu(seen @ small.x @ weight + bias, 0.25)
            for seen, weight, bias in zip((dense, diffusion), encoder.weights, encoder.biases, strict=True)
        ]
        torch.testing.assert_close(encoder(small.x, view), torch.cat(sights, dim=1), atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(encoder.embed(small.x, view), sights[0] + sights[1], atol=1e-3, rtol=1e-3)


def test_the_gradient_of_diffusion(small: Graph) -> None:
    encoder = TwoSights(hidden=3, restart=0.3).build(16, torch.Generator().manual_seed(0)).double()
    view = whole_graph(small)
    adjacency = view.adjacency.to(dtype=torch.float64)
    z = torch.randn(40, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: encoder._diffused(rows, adjacency), (z,))


def test_features_are_shuffled_and_sparse_ones_stay_sparse(cora: Graph) -> None:
    method = method_named("dgi").configure(hidden=4)
    task = method.objective.task(plan(cora, method, device="cpu").prepare().setup(seed=0))
    assert isinstance(task, InfomaxTask) and not isinstance(task.x, torch.Tensor)
    order = torch.randperm(cora.num_nodes, generator=torch.Generator().manual_seed(0))
    assert torch.equal(task.rows(order).to_dense(), task.x.to_dense()[order])
    first, second = float(task.loss().detach()), float(task.loss().detach())
    assert first != second, "every step shuffles anew"


def test_an_encoder_of_one_block_has_one_summary(small: Graph) -> None:
    method = replace(method_named("mvgrl").configure(hidden=8), name="mine", encoder=method_named("dgi").encoder)
    assert fit(small, method, epochs=2, device="cpu").embed(small).shape == (40, 512)


@pytest.mark.parametrize("name", ["dgi", "mvgrl"])
def test_it_learns_more_than_an_untrained_encoder_knows(name: str, cora: Graph) -> None:
    method = method_named(name).configure(hidden=32, epochs=40, learning_rate=0.01)
    fitted = fit(cora, method, device="cpu")
    assert fitted.losses[-1] < fitted.losses[0] - 0.2
    scores = [evaluate(rows, cora, splits=3).mean for rows in (fitted.embed(cora), untrained(cora, method))]
    assert scores[0] > scores[1] + 15


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"restart must be .*found 0"):
        TwoSights(restart=0)
    with pytest.raises(SettingError, match="blocks of one width, found 3, 4"):
        Infomax().heads_of_blocks((3, 4), 0, torch.Generator())
    for name in ("dgi", "mvgrl"):
        with pytest.raises(SettingError, match=rf"{name} .*Infomax.*has no"):
            plus(method_named(name))
