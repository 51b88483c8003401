"""Branches in training: early copies, checkpoints, files, and the loss of several blocks."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from graphkin import Branches, Fitted, Graph, Kinship, Method, Optimiser, SparseMatrix, evaluate, fit, fit_repeats, load
from graphkin.errors import ModelFileError
from graphkin.graphs.synthetic import community_graph
from graphkin.models.layers import Projector
from graphkin.models.views import isolated
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels.kinship import Form, kinship_loss
from graphkin.objectives.objective import Task
from graphkin.support.files import read_tensors, write_tensors
from graphkin.training import loop
from graphkin.training.loop import Watch
from graphkin.training.plan import plan
from tests.cases import unit, weights_for

EARLY = 3
SMALL = Branches(hidden=12, branch_width=6, width=16, axes=8, early=EARLY)
KIN = Method("test-kin", SMALL, None, Kinship(own=0.4, projector=8), Optimiser(epochs=7, learning_rate=0.01))
WAYS: list[dict[str, Any]] = [{}, {"anchors": 12}, {"norm": "batch", "drop_positives": 0.4}, {"anchors": 12, "norm": "batch"}]


def state_of(fitted: Fitted, part: str) -> dict[str, Tensor]:
    branches: Any = getattr(fitted.modules["encoder"], part)
    found: dict[str, Tensor] = branches.state_dict()
    return found


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("settings", WAYS)
def test_early_branches_are_those_after_so_many_epochs(small: Graph, settings: dict[str, Any]) -> None:
    short = fit(small, KIN, device="cpu", epochs=EARLY, **settings)
    longer, longest = (fit(small, KIN, device="cpu", epochs=epochs, **settings) for epochs in (EARLY + 1, 7))
    assert longest.losses[:EARLY] == short.losses
    assert same(state_of(short, "early"), state_of(short, "late"))
    for later in (longer, longest):
        assert same(state_of(later, "early"), state_of(short, "late")), "and they stay what they are"
        assert not same(state_of(later, "late"), state_of(short, "late"))
    assert float(longest.modules["encoder"].get_buffer("steps")) == 7


def test_without_early_epochs_they_are_untrained(small: Graph) -> None:
    prepared = plan(small, KIN, device="cpu", early=0).prepare()
    fresh: Any = prepared.setup(seed=0).modules["encoder"]
    assert same(state_of(fit(small, KIN, device="cpu", early=0), "early"), fresh.late.state_dict())
    assert not any(parameter.requires_grad for parameter in fresh.early.parameters())


def test_the_axes_of_training_are_kept(small: Graph) -> None:
    """Every seed smooths the same features, and embedding another graph finds no axes of its own."""
    one, other = fit_repeats(small, KIN, [0, 1], device="cpu")
    basis = one.modules["encoder"].get_buffer("basis")
    assert basis.shape == (16, 8) and torch.equal(basis, other.modules["encoder"].get_buffer("basis"))
    before = {name: value.clone() for name, value in one.modules.state_dict().items()}
    one.embed(replace(small, x=torch.rand(40, 16)))
    assert same(one.modules.state_dict(), before)


@pytest.mark.parametrize("settings", WAYS)
def test_one_seed_gives_one_result_and_files_keep_it(small: Graph, settings: dict[str, Any], tmp_path: Path) -> None:
    before = torch.get_rng_state()
    one, again, other = (fit(small, KIN, device="cpu", seed=seed, **settings) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.losses == again.losses != other.losses
    assert torch.equal(one.embed(small), again.embed(small)) and not torch.equal(one.embed(small), other.embed(small))
    one.save(tmp_path / "model.graphkin")
    loaded = load(tmp_path / "model.graphkin")
    assert loaded.method == one.method and same(loaded.modules.state_dict(), one.modules.state_dict())
    assert torch.equal(loaded.embed(small), one.embed(small))


DAMAGED = {"hidden": (12, 2**16), "axes": (8, 2**16), "width": (16, 2**16), "branch_width": (6, 7), "early": (3, -1)}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_with_other_settings_is_refused(small: Graph, name: str, tmp_path: Path) -> None:
    """Before anything large is allocated for it."""
    old, new = DAMAGED[name]
    fit(small, KIN, device="cpu", epochs=1).save(tmp_path / "model")
    metadata, tensors = read_tensors(tmp_path / "model")
    header = metadata["graphkin"].replace(f'"{name}": {old}', f'"{name}": {new}')
    if new == 2**16:
        header = header.replace('"num_features": 16', f'"num_features": {10**7}')
    assert header != metadata["graphkin"]
    write_tensors(tmp_path / "model", tensors, {**metadata, "graphkin": header})
    words = "its parameters would take" if new == 2**16 else "is damaged|early must be"
    with pytest.raises(ModelFileError, match=words):
        load(tmp_path / "model")


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("stop", [1, EARLY, 5])
def test_it_goes_on_from_a_checkpoint(small: Graph, settings: dict[str, Any], stop: int, tmp_path: Path) -> None:
    whole = fit(small, KIN, device="cpu", **settings)
    path, steps = tmp_path / "checkpoint", itertools.count()
    with pytest.MonkeyPatch.context() as patched:
        step = loop._Run.step

        def stopped(run: Any) -> None:
            if next(steps) == stop:
                raise KeyboardInterrupt
            step(run)

        patched.setattr(loop._Run, "step", stopped)
        with pytest.raises(KeyboardInterrupt):
            fit(small, KIN, device="cpu", checkpoint=path, checkpoint_every=1, **settings)
    resumed = fit(small, KIN, device="cpu", checkpoint=path, **settings)
    assert resumed.losses == whole.losses and same(resumed.modules.state_dict(), whole.modules.state_dict())
    finished = fit(small, KIN, device="cpu", checkpoint=path, **settings)
    assert torch.equal(finished.embed(small), whole.embed(small)), "from the checkpoint of the last epoch"


@pytest.mark.parametrize("stop", [1, 5])
def test_interrupted_training_still_embeds(small: Graph, stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, step = itertools.count(1), loop._Run.step

    def stepped(run: Any) -> None:
        step(run)
        if next(steps) == stop:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop._Run, "step", stepped)
    fitted = fit(small, KIN, device="cpu")
    assert fitted.interrupted and len(fitted.losses) == stop
    monkeypatch.undo()
    assert torch.equal(fitted.embed(small), fit(small, KIN, device="cpu", epochs=stop).embed(small))


def test_a_watch_sees_embeddings_and_changes_nothing(small: Graph) -> None:
    seen: list[Tensor] = []
    prepared = plan(small, KIN, device="cpu").prepare()
    watched = prepared.train([0], watch=Watch([2, 7], lambda fitted: seen.append(fitted[0].embed(small)))).fitted[0]
    whole = fit(small, KIN, device="cpu")
    assert watched.losses == whole.losses and torch.equal(seen[1], whole.embed(small))
    assert torch.equal(seen[0], fit(small, KIN, device="cpu", epochs=2).embed(small))


def task_of(graph: Graph, method: Method, **settings: Any) -> Task:
    prepared = plan(graph, method, device="cpu", adapt=False, **settings).prepare()
    return prepared.plan.method.objective.task(prepared.setup(seed=3))


def projected(task: Task, encoded: Tensor) -> list[Tensor]:
    projectors: Any = task.modules["projector"]
    return [unit(project(block)) for project, block in zip(projectors, encoded.split(6, dim=1), strict=True)]


def test_the_loss_is_the_mean_over_blocks(small: Graph) -> None:
    task: Any = task_of(small, KIN, dropout=0.0)
    assert isinstance(task.modules["projector"], nn.ModuleList) and len(task.modules["projector"]) == 3
    encoded = task.modules["encoder"](task.x, task.view)
    shares = objective.kinship_shares(weights_for(small, KIN).block(), 0.4)
    losses = [objective.kinship(u, u, shares, 0.4) for u in projected(task, encoded)]
    torch.testing.assert_close(task.loss(), torch.stack(losses).mean())
    assert len({round(loss.item(), 6) for loss in losses}) == 3, "each block has a loss of its own"


def test_a_drawn_step_is_the_mean_over_blocks(small: Graph) -> None:
    task: Any = task_of(small, KIN, dropout=0.0, anchors=10)
    state = {name: source.get_state() for name, source in task.sources.items()}
    found = task.loss()
    for name, source in task.sources.items():
        source.set_state(state[name])
    anchors = torch.randperm(40, generator=task.sources["sampling"])[:10]
    positives = task.lists.draw(anchors, task.sources["positives"], 0.4)
    encoder = task.modules["encoder"]
    u, v = (
        projected(task, encoder(task.x.mapped(lambda part, nodes=nodes: part[nodes]), isolated(10)))
        for nodes in (anchors, positives)
    )
    losses = [kinship_loss(one, other, None, Form(0.4)) for one, other in zip(u, v, strict=True)]
    torch.testing.assert_close(found, torch.stack(losses).mean())


def test_one_branch_has_one_projector(small: Graph) -> None:
    """As an encoder that gives one block."""
    task = task_of(small, KIN, branches=("hop1",), dropout=0.0)
    assert isinstance(task.modules["projector"], Projector)
    gradients = torch.autograd.grad(task.loss(), [p for p in task.modules.parameters() if p.requires_grad])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("settings", [{"anchors": 12}, {"anchors": 12, "norm": "batch"}, {}])
def test_a_step_asks_the_device_for_no_value(small: Graph, settings: dict[str, Any]) -> None:
    """Else a GPU could not record it."""
    task = task_of(small, KIN, **settings)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert task.loss().shape == ()


def test_it_learns_both_ways() -> None:
    graph = community_graph(150, classes=3, mean_degree=6, words=40)
    sparse = replace(graph, x=graph.x if isinstance(graph.x, SparseMatrix) else SparseMatrix.from_dense(graph.x))
    for settings in ({}, {"anchors": 60}, {"norm": "batch"}):
        fitted = fit(sparse, KIN, device="cpu", epochs=40, branch_width=16, **settings)
        assert sum(fitted.losses[-5:]) < sum(fitted.losses[:5])
        assert evaluate(fitted.embed(sparse), graph, splits=2).mean > 50


def test_memory_grows_with_what_is_taken(small: Graph) -> None:
    """Smoothed features in the plan, branches in a step; a limit that is too small is one line."""

    def needs(**settings: Any) -> int:
        return plan(small, KIN, device="cpu", **settings).execution.needs

    for settings in ({}, {"anchors": 12}):
        one = needs(branches=("x",), free=("x",), **settings)
        more = needs(branches=("x",), free=("x", "hop1", "hop2"), **settings)
        assert more - one == 2 * 4 * 40 * 8 and needs(**settings) > more
        assert needs(hidden=24, **settings) > needs(**settings)
        assert needs(axes=16, **settings) > needs(**settings)
    widest = plan(small, KIN, device="cpu", branch_width=4096).execution
    assert widest.estimate > plan(small, KIN, device="cpu").execution.estimate
    smoothed = 10**6 * 4 * 8 * 5
    assert SMALL.inputs_memory(10**6, 100) > smoothed and SMALL.embedding_memory(10**6, 100) > smoothed
