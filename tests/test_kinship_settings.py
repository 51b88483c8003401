"""Kinship in a method: its settings, the ways it is computed in, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from graphkin import GCN, MLP, Graph, Kinship, Method, Optimiser, TwoViews, fit, load
from graphkin.errors import SettingError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import METHODS, declare, from_json, plus, presets, to_json
from graphkin.objectives.kinship import ways
from graphkin.training.plan import plan
from graphkin.weights import Neighbours, OwnCounterpart

KIN = Method("test-kin", MLP(hidden=16, dropout=0.2), None, Kinship(projector=8), Optimiser(epochs=3, learning_rate=0.01))


def test_settings_are_flat_and_read_by_the_tag() -> None:
    method = Method("test-kin", GCN(), None, Kinship())
    known = {name: method.settings()[name] for name in ("tau", "own", "drop_positives", "symmetric", "both_views", "projector")}
    assert known == {"tau": 0.4, "own": 0.0, "drop_positives": 0.0, "symmetric": False, "both_views": False, "projector": 256}
    assert method.settings()["anchors"] is None and method.settings()["effective_positives"] == 10
    changed = method.configure(own=0.2, anchors=4096, tau_pos=0.1, projector=None, top_k=8)
    assert to_json(changed)["objective"]["type"] == "Kinship"
    assert from_json(to_json(changed)) == changed


def test_a_model_is_saved_and_loaded(small: Graph, tmp_path: Any) -> None:
    fitted = fit(small, KIN, device="cpu", anchors=10)
    fitted.save(tmp_path / "kin.graphkin")
    loaded = load(tmp_path / "kin.graphkin")
    assert loaded.method == fitted.method and torch.equal(loaded.embed(small), fitted.embed(small))


def test_there_is_no_plus_of_it() -> None:
    """It weighs by similarity already."""
    declare(KIN)
    try:
        assert KIN.name in METHODS and f"{KIN.name}+" not in METHODS
        with pytest.raises(SettingError, match=r"test-kin \(Kinship\) has no"):
            plus(KIN)
    finally:
        METHODS._entries.pop(KIN.name)
    assert presets(KIN.name) is not None


WORDS = {"weights": "similarity and weights stored", "similarity": "in blocks, similarity stored", "nothing": "in blocks"}


def test_ways_without_a_change_of_settings(small: Graph) -> None:
    listed = list(KIN.objective.ways(small, KIN, torch.device("cpu"), adapt=False))
    assert {way.stored: way.words.removeprefix("all nodes at once, ") for way in listed} == WORDS
    assert [way.method for way in listed] == [KIN] * 3 and not any(way.recorded for way in listed)
    drawn = KIN.configure(anchors=8)
    (way,) = drawn.objective.ways(small, drawn, torch.device("cpu"), adapt=False)
    assert (way.words, way.stored, way.method) == ("8 anchors a step, each with one positive", "nothing", drawn)
    losses = [fit(small, KIN, device="cpu", precision=precision).losses[0] for precision in ("auto", "float32", "bf16")]
    assert losses[0] == losses[1] != losses[2]


def test_stored_or_not_the_loss_is_the_same(small: Graph) -> None:
    for settings in ({}, {"own": 0.3, "drop_positives": 0.5}):
        method, found = KIN.configure(**settings), []
        base = plan(small, method, device="cpu")
        for way in method.objective.ways(small, base.method, torch.device("cpu"), adapt=False):
            found.append(replace(base, execution=way).fit(seed=0).losses)
        assert found[1] == pytest.approx(found[0], rel=1e-5) and found[2] == pytest.approx(found[0], rel=1e-5)


def test_a_graph_too_large_for_all_pairs_is_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph(2000, mean_degree=4)
    asked = plan(graph, KIN, device="cpu").execution
    assert asked.words.startswith("all nodes at once") and asked.change is None
    monkeypatch.setattr(ways, "ANCHORS", 256)
    little = plan(graph, KIN, device="cpu", memory=asked.estimate - asked.needs // 2).execution
    assert "256 anchors a step" in little.words and little.change is not None and "anchors=256" in little.change
    monkeypatch.setattr(ways, "MOST_AT_ONCE", {"cpu": 1000})
    monkeypatch.setattr("graphkin.execution.decision.STORE_BELOW_SHARE", 0)
    assert plan(graph, KIN, device="cpu").execution.words == "256 anchors a step, each with one positive"
    monkeypatch.setattr(ways, "MOST_LISTED", {"cpu": 1000})
    largest = plan(graph, KIN, device="cpu").execution
    assert "32 largest PageRanks" in largest.words and largest.method.settings()["top_k"] == 32
    with pytest.warns(UserWarning, match="anchors=256 instead of None"):
        fit(graph, KIN, device="cpu", epochs=1)
    with pytest.raises(SettingError, match="memory must be at least"):
        plan(graph, KIN, device="cpu", memory="1KiB")


@pytest.mark.parametrize("positives", [OwnCounterpart(), Neighbours(hops=1)])
def test_other_positives(small: Graph, positives: Any) -> None:
    method = replace(KIN, objective=Kinship(positives=positives, similarity=None, projector=8))
    ways_to_train: list[dict[str, Any]] = [{}, {"anchors": 10}, {"drop_positives": 0.5}]
    for settings in ways_to_train:
        assert torch.isfinite(torch.tensor(fit(small, method, device="cpu", **settings).losses)).all()


def test_more_anchors_than_nodes_are_all_nodes(small: Graph) -> None:
    assert fit(small, KIN, device="cpu", anchors=40).losses == fit(small, KIN, device="cpu").losses


def test_a_similarity_of_ones_own(small: Graph) -> None:
    one = torch.rand(40, 40, generator=torch.Generator().manual_seed(0))
    for method in (KIN, KIN.configure(anchors=10)):
        fitted = fit(small, method, device="cpu", similarity=one)
        assert fitted.losses != fit(small, method, device="cpu").losses


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tau": 0}, "tau must be"),
    ({"own": 1.5}, "own must be .*found 1.5"),
    ({"drop_positives": 1}, "drop_positives must be .*found 1"),
    ({"symmetric": 1}, "symmetric must be True or False"),
    ({"both_views": "yes"}, "both_views must be True or False"),
    ({"projector": 0}, "projector must be .*found 0"),
    ({"precision": "float16"}, "float16"),
    ({"candidates": 20}, "candidates must be none with Kinship.*found 20"),
    ({"positives_sampled": 20}, "positives_sampled must be none with Kinship"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        KIN.configure(**settings)


def test_refused_components() -> None:
    with pytest.raises(SettingError, match="Kinship takes no views"):
        replace(KIN, views=TwoViews())
    with pytest.raises(SettingError, match="needs a similarity"):
        Kinship(similarity=None)
