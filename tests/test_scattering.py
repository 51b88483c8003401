"""SGRL's objective and encoder: against loops, the two encoders in a step, and training from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphkin import Graph, evaluate, fit, load, method_named
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import plus
from graphkin.models.encoders.smoothed import SmoothedGCN
from graphkin.models.views import whole_graph
from graphkin.objectives.scattering import Scattering, ScatteringTask, prediction, scattering
from graphkin.training.plan import plan
from tests import paper


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_losses_are_the_papers() -> None:
    h, q = rows(2, 7, 3)
    assert scattering(h).item() == pytest.approx(paper.scattering(h.tolist()), abs=1e-10)
    expected = -sum(paper.cosine(a, b) for a, b in zip(q.tolist(), h.tolist(), strict=True)) / 7
    assert prediction(q, h).item() == pytest.approx(expected, abs=1e-10)


def test_scattering_is_about_the_mean_direction() -> None:
    h = rows(7, 3)
    centre = torch.nn.functional.normalize(h, dim=1).mean(dim=0)
    assert scattering(h).item() == pytest.approx(float(centre @ centre) - 1, abs=1e-12)
    assert scattering(h[:1].repeat(5, 1)).item() == pytest.approx(0, abs=1e-12), "all in one place is the worst"


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_embeddings_are_smoothed(small: Graph, hops: int) -> None:
    encoder = SmoothedGCN(hidden=5, after_hops=hops).build(16, torch.Generator().manual_seed(0)).eval()
    view = whole_graph(small)
    with torch.no_grad():
        plain, dense = encoder(small.x, view), view.adjacency.to_dense()
        expected = plain + torch.linalg.matrix_power(dense, hops) @ plain if hops else plain
        torch.testing.assert_close(encoder.embed(small.x, view), expected)


def task_on(graph: Graph) -> ScatteringTask:
    method = method_named("sgrl").configure(hidden=8, predictor=5, decay=0.9)
    task = method.objective.task(plan(graph, method, device="cpu").prepare().setup(seed=3))
    assert isinstance(task, ScatteringTask)
    return task


def test_the_target_learns_to_scatter_and_nothing_else(small: Graph) -> None:
    task = task_on(small)
    target = task.modules["target"]
    task.loss().backward()
    found = [parameter.grad for parameter in target.parameters()]
    target.zero_grad()
    scattering(target(task.x, task.view)).backward()
    for one, other in zip(found, (parameter.grad for parameter in target.parameters()), strict=True):
        torch.testing.assert_close(one, other)


def test_the_target_follows_the_encoder(small: Graph) -> None:
    task = task_on(small)
    mine, its = (next(task.modules[name].parameters()) for name in ("target", "encoder"))
    before = mine.detach().clone()
    assert not torch.equal(mine, its), "they start from parameters of their own"
    task.after_epoch()
    torch.testing.assert_close(mine.detach(), 0.9 * before + 0.1 * its.detach())


def test_the_target_is_no_part_of_the_model(small: Graph, tmp_path: Path) -> None:
    fitted = fit(small, "sgrl", epochs=2, hidden=8, device="cpu")
    assert set(fitted.modules) == {"encoder", "predictor"}
    fitted.save(tmp_path / "model.graphkin")
    assert torch.equal(load(tmp_path / "model.graphkin").embed(small), fitted.embed(small))


def test_it_learns_more_than_an_untrained_encoder_knows() -> None:
    graph = community_graph(300, classes=3, mean_degree=8, words=48)
    method = method_named("sgrl").configure(hidden=32, predictor=32, epochs=100, learning_rate=0.005)
    fitted = fit(graph, method, device="cpu")
    assert fitted.losses[-1] < fitted.losses[0] - 0.3
    scores = [evaluate(found, graph, splits=5).mean for found in (fitted.embed(graph), untrained(graph, method))]
    assert scores[0] > scores[1]


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"decay must be .*found 2"):
        Scattering(decay=2)
    with pytest.raises(SettingError, match=r"after_hops must be .*found -1"):
        SmoothedGCN(after_hops=-1)
    with pytest.raises(SettingError, match=r"sgrl .*Scattering.*has no"):
        plus(method_named("sgrl"))
