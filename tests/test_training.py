from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphkin
from graphkin import Fitted, Graph, fit, fit_repeats, load
from graphkin.errors import DivergedError, GraphError, InputError, SettingError
from graphkin.execution import SMALL_STEP
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import GRACE, METHODS, Method, method_named
from graphkin.models.encoder import width_of
from graphkin.support.adam import Adam
from graphkin.support.progress import progress
from graphkin.training import loop
from graphkin.training.plan import plan

TRAINED = [name for name, method in METHODS.items() if method.objective.trains]
QUICK: dict[str, Any] = {"epochs": 5, "hidden": 16}


@pytest.mark.parametrize("method", [*TRAINED, "grace+(p)", "gca+(n)", "graph-mlp+(g)", "grace+(f)"])
def test_every_method_learns(small: Graph, method: str) -> None:
    fitted = fit(small, method, epochs=60, hidden=16)
    assert len(fitted.losses) == 60
    assert sum(fitted.losses[-5:]) < sum(fitted.losses[:5])
    embeddings = fitted.embed(small)
    assert embeddings.shape == (40, width_of(fitted.method.encoder, small.num_features))
    assert torch.isfinite(embeddings).all()
    assert not embeddings.requires_grad


@pytest.mark.parametrize("method", TRAINED)
def test_one_seed_is_bit_identical_and_leaves_the_global_state_alone(small: Graph, method: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (fit(small, method, seed=seed, **QUICK) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.losses == same.losses
    assert torch.equal(one.embed(small), same.embed(small))
    assert torch.equal(one.embed(small), other.embed(small)) != (method in TRAINED)


def test_the_global_state_plays_no_part(small: Graph) -> None:
    torch.manual_seed(1)
    one = fit(small, "gca+", activation="rrelu", **QUICK)
    torch.manual_seed(2)
    assert torch.equal(one.embed(small), fit(small, "gca+", activation="rrelu", **QUICK).embed(small))


def test_base_and_plus_start_from_the_same_parameters(small: Graph) -> None:
    from graphkin.training.modules import modules_for

    base, enhanced = (modules_for(method_named(name), 16, 0, seed=3) for name in ("grace", "grace+"))
    assert all(torch.equal(a, b) for a, b in zip(base.parameters(), enhanced.parameters(), strict=True))


def test_pyg_data_is_taken_as_it_is(small: Graph) -> None:
    data = Data(x=small.x, edge_index=small.edge_index)
    fitted = graphkin.fit(data, method="grace+", **QUICK)
    assert torch.equal(fitted.embed(data), fitted.embed(small))


def test_labels_that_are_no_classes_are_left_alone() -> None:
    data = Data(x=torch.rand(6, 4), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.rand(6, 3))
    graph = Graph.from_data(data)
    assert graph.y is None
    assert "labels ignored: not one class per node" in graph.notes


def test_embedding_another_graph_with_the_same_features(small: Graph) -> None:
    fitted = fit(small, "grace", **QUICK)
    other = Graph.from_arrays(torch.rand(7, 16), torch.tensor([[0, 1], [1, 2]]))
    assert fitted.embed(other).shape == (7, 16)
    narrow = Graph.from_arrays(torch.rand(7, 3), torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(GraphError, match="must have the model's 16 features per node, found 3"):
        fitted.embed(narrow)


def test_graph_mlp_predicts_from_features_alone(small: Graph) -> None:
    fitted = fit(small, "graph-mlp+", epochs=60, hidden=16)
    assert small.y is not None and small.test_mask is not None
    predicted = fitted.predict(small)
    assert float((predicted == small.y)[small.test_mask].float().mean()) > 0.8
    without_edges = replace(small, edge_index=torch.empty(2, 0, dtype=torch.long))
    assert torch.equal(fitted.predict(without_edges), predicted)
    with pytest.raises(InputError, match="grace has no classifier"):
        fit(small, "grace", **QUICK).predict(small)


def test_graph_mlp_never_looks_at_test_labels(small: Graph) -> None:
    assert small.y is not None and small.test_mask is not None
    hidden = replace(small, y=torch.where(small.test_mask, 1 - small.y, small.y))
    one, two = fit(small, "graph-mlp", **QUICK), fit(hidden, "graph-mlp", **QUICK)
    assert torch.equal(one.embed(small), two.embed(small))


def test_self_supervised_methods_never_look_at_labels(small: Graph) -> None:
    one, two = fit(small, "grace+", **QUICK), fit(replace(small, y=None), "grace+", **QUICK)
    assert torch.equal(one.embed(small), two.embed(small))


def test_sampling_trains(small: Graph) -> None:
    fitted = fit(small, "grace+", anchors=10, positives_sampled=15, negatives_sampled=20, **QUICK)
    assert torch.isfinite(fitted.embed(small)).all()


def test_pooling_and_structure_are_settings(small: Graph) -> None:
    results = [
        fit(small, "grace+", **QUICK, **settings).embed(small)
        for settings in ({}, {"pooling": "mean"}, {"structure": "ppr-cosine"}, {"steps": None}, {"tau_pos": 1, "tau_neg": 1})
    ]
    assert all(not torch.equal(results[0], other) for other in results[1:])


def test_a_users_own_similarity(small: Graph) -> None:
    matrix = torch.rand(40, 40, generator=torch.Generator().manual_seed(0))
    by_matrix = fit(small, "grace+", similarity=matrix, **QUICK)
    by_function = fit(small, "grace+", similarity=lambda rows: matrix[rows], **QUICK)
    assert torch.equal(by_matrix.embed(small), by_function.embed(small))
    assert not torch.equal(by_matrix.embed(small), fit(small, "grace+", **QUICK).embed(small))
    with pytest.raises(SettingError, match="grace uses no similarity"):
        fit(small, "grace", similarity=matrix)
    with pytest.raises(SettingError, match="of the graph's 40 nodes, found 3"):
        fit(small, "grace+", similarity=torch.eye(3))


def test_blocks_instead_of_stored_matrices_train_the_same(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """No layer above similarity needs an N×N matrix: without room for one, the curve is the same."""
    stored = fit(small, "grace+", tau_pos=0.1, tau_neg=0.1, **QUICK)
    monkeypatch.setattr("graphkin.execution.decision.STORE_BELOW_SHARE", 0)
    planned = plan(small, "grace+", tau_pos=0.1, tau_neg=0.1, adapt=False, **QUICK)
    assert planned.execution.stored == "nothing"
    (streamed,) = planned.prepare().train([0]).fitted
    assert stored.losses == pytest.approx(streamed.losses, rel=1e-4, abs=1e-5)


def test_presets_are_chosen_by_the_graphs_name(cora: Graph, small: Graph) -> None:
    from graphkin.training.plan import resolve

    assert resolve("grace+", cora).settings()["tau_pos"] == 0.1
    assert resolve("grace+", small).settings()["effective_positives"] == 10
    assert resolve("grace", small, preset="citeseer").settings()["activation"] == "prelu"
    assert resolve("gca", cora).settings()["learning_rate"] == 1e-3


def test_the_last_step_may_not_diverge_either(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_step(self: Adam) -> None:
        for parameter in self.parameters:
            parameter.data.fill_(float("nan"))

    monkeypatch.setattr(Adam, "step", broken_step)
    with pytest.raises(DivergedError, match="became nan in epoch 1 of 1"):
        fit(small, "grace", epochs=1, hidden=4)


def test_training_under_another_default_precision(small: Graph) -> None:
    expected = fit(small, "gca+", **QUICK).embed(small)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(fit(small, "gca+", **QUICK).embed(small), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_features_are_scaled_as_in_training_when_embedding_another_graph(small: Graph) -> None:
    fitted = fit(small, "grace", **QUICK)
    assert fitted.method.feature_scale == "rows"
    x = small.x.to_dense().clone()
    x[0, 0] = -1e-6
    with pytest.raises(GraphError, match="needs features >= 0"):
        fitted.embed(Graph.from_arrays(x, small.edge_index))


def test_divergence_names_the_epoch_and_the_setting(small: Graph) -> None:
    with pytest.raises(DivergedError, match=r"became (nan|inf) in epoch 1 of 50.*learning_rate=0\.001, tau=1e-40"):
        fit(small, "grace", tau=1e-40, epochs=50, hidden=16)


def test_interrupt_keeps_what_was_learned(small: Graph) -> None:
    """A real SIGINT in the middle of training ends it after the running epoch."""

    def interrupt(epoch: int, loss: float) -> None:
        if epoch == 3:
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    settings: dict[str, Any] = {"epochs": 1_000_000, "hidden": 16, "progress": interrupt}
    fitted = fit(small, "grace", **settings)
    assert fitted.interrupted
    assert len(fitted.losses) == 4
    assert torch.isfinite(fitted.embed(small)).all()
    assert signal.getsignal(signal.SIGINT) is handler


def test_training_works_outside_the_main_thread(small: Graph) -> None:
    results: list[Fitted] = []
    thread = threading.Thread(target=lambda: results.append(fit(small, "grace", **QUICK)))
    thread.start()
    thread.join()
    assert len(results[0].losses) == 5


def test_refused_graphs(small: Graph) -> None:
    edgeless = replace(small, edge_index=torch.empty(2, 0, dtype=torch.long))
    for method in ("grace", "grace+", "graph-mlp"):
        with pytest.raises(GraphError, match="no edges"):
            fit(edgeless, method, **QUICK)
    assert torch.isfinite(fit(edgeless, "grace+", beta=1, **QUICK).embed(edgeless)).all()
    with pytest.raises(GraphError, match="at least 2 nodes, found 1"):
        fit(Graph.from_arrays(torch.ones(1, 2), torch.empty(2, 0)), "grace")
    with pytest.raises(GraphError, match="trained with labels, and the graph has none"):
        fit(replace(small, y=None), "graph-mlp")
    with pytest.raises(GraphError, match="train_mask is missing or empty"):
        fit(replace(small, train_mask=None), "graph-mlp")
    assert small.y is not None
    with pytest.raises(GraphError, match="every node in train_mask needs a label for graph-mlp, found 10 without one"):
        fit(replace(small, y=torch.full_like(small.y, -1)), "graph-mlp")
    for mask in ("val_mask", "test_mask"):
        shared: dict[str, Any] = {mask: small.train_mask}
        with pytest.raises(GraphError, match=f"train_mask and {mask} must not share nodes, found 10 in both"):
            fit(replace(small, **shared), "graph-mlp")


def test_refused_settings(small: Graph) -> None:
    with pytest.raises(SettingError, match="device must be auto, cpu, cuda or cuda:N, found 'tpu!'"):
        fit(small, "grace", device="tpu!")
    with pytest.raises(SettingError, match="seed must be a whole number >= 0, found -1"):
        fit(small, "grace", seed=-1)
    with pytest.raises(SettingError, match="unknown progress 'loud'"):
        fit(small, "grace", progress="loud")
    negative = Graph.from_arrays(torch.randn(5, 3), torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(GraphError, match="needs features >= 0"):
        fit(negative, "grace", feature_scale="rows", **QUICK)
    assert torch.isfinite(fit(negative, "grace+", **QUICK).embed(negative)).all()


def test_graphs_with_isolated_nodes_and_empty_features(small: Graph) -> None:
    x = torch.cat([small.x.to_dense(), torch.zeros(3, 16)])
    graph = Graph.from_arrays(x, small.edge_index)
    for method in ("grace", "grace+", "gca", "gca+"):
        assert torch.isfinite(fit(graph, method, **QUICK).embed(graph)).all()


def test_progress_lines_go_to_standard_error(small: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    fit(small, "grace", progress="lines", **QUICK)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "grace on small: epoch 5/5, loss" in captured.err
    fit(small, "grace", **QUICK)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("seeds", [5, None, "01", [], [0, -1], [0, 1.5], [True], ["a"]])
def test_bad_seeds_are_found_before_anything_is_trained(small: Graph, seeds: Any) -> None:
    with pytest.raises(SettingError, match="seed"):
        fit_repeats(small, "grace", seeds, epochs=10**6)


SAMPLED: dict[str, Any] = {"candidates": 12, "anchors": 8, "near": 2, "hidden": 8, "epochs": 6}


@pytest.mark.parametrize("method", ["grace", "gca", "grace+", "gca+", "grace+(p)", "grace+(n)"])
@pytest.mark.parametrize("others", [{}, {"pooling": "mean"}])
def test_sampled_training_is_reproducible(small: Graph, method: str, others: dict[str, Any]) -> None:
    settings = {**SAMPLED, **others, **({"top_k": 5} if "+" in method else {})}
    one, other = (fit(small, method, seed=1, device="cpu", **settings) for _ in range(2))
    assert torch.equal(one.embed(small), other.embed(small))
    assert one.kernel == "blocked float32"


@pytest.mark.slow
@pytest.mark.parametrize(("method", "others"), [("grace", {}), ("grace+", {"top_k": 5})])
def test_sampled_training_learns(method: str, others: dict[str, Any]) -> None:
    graph = community_graph(300, classes=3, mean_degree=8, words=48)
    settings = {"candidates": 40, "anchors": 40, "hidden": 16, "epochs": 150, "learning_rate": 0.01, **others}
    losses = fit(graph, method, seed=1, device="cpu", **settings).losses
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.05


@pytest.mark.slow
def test_sampled_training_starts_at_the_full_loss(small: Graph) -> None:
    """Many samples of the same embeddings: an estimate of the loss of all nodes."""
    full: dict[str, Any] = {"hidden": 8, "epochs": 1, "drop_edges": (0.0, 0.0), "drop_features": (0.0, 0.0), "top_k": 5}
    wanted = fit(small, "grace+", device="cpu", **full).losses[0]
    planned = plan(small, "grace+", device="cpu", **full, candidates=30, near=4, anchors=30)
    task = planned.method.objective.task(planned.prepare().setup(seed=0))
    with torch.no_grad():
        found = torch.stack([task.loss() for _ in range(300)])
    assert float(found.mean()) == pytest.approx(wanted, abs=0.05)


def test_more_candidates_than_nodes_are_all_nodes(small: Graph) -> None:
    settings: dict[str, Any] = {"hidden": 8, "epochs": 3, "device": "cpu"}
    full, many = fit(small, "grace+", **settings), fit(small, "grace+", candidates=1000, **settings)
    assert torch.equal(full.embed(small), many.embed(small))


def test_wrong_sampling_is_named() -> None:
    with pytest.raises(SettingError, match="positives_sampled and negatives_sampled must be none"):
        GRACE.configure(candidates=30, positives_sampled=5)
    with pytest.raises(SettingError, match="near must be a whole number >= 0"):
        GRACE.configure(near=-1)


def test_numpy_seeds_can_be_saved(small: Graph, tmp_path: Path) -> None:
    for fitted in fit_repeats(small, "grace", np.arange(2), epochs=1, hidden=4):
        fitted.save(tmp_path / "model.graphkin")
        assert load(tmp_path / "model.graphkin").seed == fitted.seed


@pytest.mark.parametrize(("when", "repeats", "interrupted"), [(2, 1, True), (3, 1, False), (5, 2, True)])
def test_ctrl_c_ends_repeats_and_keeps_them(
    small: Graph, monkeypatch: pytest.MonkeyPatch, when: int, repeats: int, interrupted: bool
) -> None:
    """Pressed in an epoch of three repeats of three epochs each."""
    steps = itertools.count(1)
    original = loop._Run.step

    def step(run: loop._Run) -> None:
        original(run)
        if next(steps) == when:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop._Run, "step", step)
    fitted = fit_repeats(small, "grace", range(3), epochs=3, hidden=4, device="cpu")
    assert len(fitted) == repeats
    assert fitted[-1].interrupted is interrupted


def test_progress_lines_when_only_some_epochs_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU is looked at every 32 epochs."""
    with progress("lines", "x", 1500) as report:
        for epoch in [*range(32, 1500, 32), 1500]:
            report(epoch, 0.0)
    shown = [int(re.findall(r"epoch (\d+)/", line)[0]) for line in capsys.readouterr().err.splitlines()]
    assert len(shown) == 10 and shown[0] == 160 and shown[-1] == 1500


def test_a_step_of_graph_mlp_is_a_batch() -> None:
    """Several repeats with small steps fill a GPU together."""
    graph, gpu = community_graph(SMALL_STEP + 1, mean_degree=4), torch.device("cuda")

    def together(method: Method) -> int:
        return next(method.objective.ways(graph, method, gpu)).together

    assert together(method_named("graph-mlp+")) > 1
    assert together(method_named("graph-mlp+").configure(batch=SMALL_STEP + 1)) == 1


@pytest.mark.parametrize("name", ["grace", "kin", "mvgrl", "sgrl", "signa"])
def test_what_is_embedded_after_training_is_what_the_model_embeds(small: Graph, name: str) -> None:
    settings: dict[str, Any] = {} if name == "kin" else {"hidden": 8}
    fitted, blocks = plan(small, name, epochs=2, device="cpu", **settings).fit_and_embed(0)
    rows = torch.cat(list(blocks))
    assert not rows.requires_grad
    assert torch.equal(rows, fitted.embed(small))
