"""BGRL's objective: the loss against loops, the moving target, and training from end to end."""

from __future__ import annotations

import math

import pytest
import torch

from graphkin import Graph, evaluate, fit, method_named
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import plus
from graphkin.objectives.bootstrap import Bootstrap, BootstrapTask, bootstrap
from graphkin.training.plan import plan
from tests import paper


def test_the_loss_is_the_papers() -> None:
    draw = torch.Generator().manual_seed(0)
    q1, q2, h1, h2 = (torch.randn(7, 3, generator=draw, dtype=torch.float64) for _ in range(4))
    expected = paper.bootstrap(q1.tolist(), q2.tolist(), h1.tolist(), h2.tolist())
    assert bootstrap((q1, q2), (h1, h2)).item() == pytest.approx(expected, abs=1e-12)
    assert bootstrap((h2, h1), (h1, h2)).item() == pytest.approx(0, abs=1e-12), "perfect predictions"


def task_on(graph: Graph, epochs: int = 10) -> BootstrapTask:
    method = method_named("bgrl").configure(hidden=8, predictor=5, epochs=epochs, warm_up=0, decay=0.9)
    prepared = plan(graph, method, device="cpu").prepare()
    task = method.objective.task(prepared.setup(seed=3))
    assert isinstance(task, BootstrapTask)
    return task


def test_the_target_follows_the_encoder(small: Graph) -> None:
    task = task_on(small)
    trained, target = (next(module.parameters()) for module in (task.modules["encoder"], task.target))
    with torch.no_grad():
        trained.zero_()
    before = target.clone()
    task.after_epoch()
    share = (1 - 0.9) * (1 + math.cos(math.pi / 10)) / 2
    torch.testing.assert_close(target, (1 - share) * before)
    for _ in range(9):
        task.after_epoch()
    last = target.clone()
    task.step -= 1
    task.after_epoch()
    torch.testing.assert_close(target, last), "at the end it rests"


def test_no_gradient_reaches_the_target(small: Graph) -> None:
    task = task_on(small)
    task.loss().backward()
    assert all(parameter.grad is None for parameter in task.target.parameters())
    assert all(parameter.grad is not None for parameter in task.modules.parameters())


@pytest.mark.slow
def test_it_learns_more_than_an_untrained_encoder_knows() -> None:
    graph = community_graph(300, classes=3, mean_degree=8, words=48)
    method = method_named("bgrl").configure(hidden=16, epochs=100, warm_up=5, learning_rate=0.01)
    fitted = fit(graph, method, device="cpu")
    assert fitted.losses[-1] < 0.5 * fitted.losses[0]
    scores = [evaluate(rows, graph, splits=5).mean for rows in (fitted.embed(graph), untrained(graph, method))]
    assert scores[0] > scores[1]


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"decay must be .*found 2"):
        Bootstrap(decay=2)
    with pytest.raises(SettingError, match=r"bgrl.*Bootstrap.*has no"):
        plus(method_named("bgrl"))
