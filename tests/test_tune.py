"""``graphkin.tune``: spaces, criteria, trials that repeat and resume, and what becomes of failures."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphkin
from graphkin import Graph
from graphkin.errors import GraphError, InputError, OutputError, SettingError, SplitError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import METHODS, base_name, method_named, presets, search_table
from graphkin.training.loop import Watch
from graphkin.training.plan import plan
from graphkin.tuning.criteria import CRITERIA, FIRST_SEED, Asked, area, criterion_named, tuning_splits
from graphkin.tuning.outcome import COMPLETE, FAILED, PRUNED, Tuned
from graphkin.tuning.scoring import PrunedError, Scorer
from graphkin.tuning.space import Choice, Range, space_for
from graphkin.tuning.trials import JOURNAL

QUICK: dict[str, Any] = {"hidden": 8, "epochs": 4, "device": "cpu", "splits": 2}
GRACE = method_named("grace")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(150, classes=3, mean_degree=8, words=30, words_of_node=8)


def quick(graph: Graph, method: str = "grace", trials: int = 4, **options: Any) -> Tuned:
    return graphkin.tune(graph, method, trials=trials, **{**QUICK, **options})


def told(tuned: Tuned) -> list[Any]:
    return [(one.number, one.state, one.score, one.settings) for one in tuned.tried]


@pytest.mark.parametrize("name", METHODS)
def test_every_shipped_space_is_valid_and_no_preset(name: str) -> None:
    base = base_name(name)
    assert "search" not in presets(base)
    method = method_named(name)
    space = space_for(method, {})
    assert {one.partition("[")[0] for one in space.dimensions} == search_table(base).keys() & method.settings().keys()
    assert ("beta" in space.dimensions) == name.endswith("+")


def test_numbers_of_a_pair_have_a_dimension_each() -> None:
    space = space_for(GRACE, {"hidden": [16, 32], "epochs": (10, 20)})
    assert space.dimensions["drop_edges[0]"] == space.dimensions["drop_edges[1]"] == Range(0.0, 0.7)
    assert space.dimensions["hidden"] == Choice(("16", "32"))
    assert space.dimensions["epochs"] == Range(10, 20, whole=True)
    assert space.settings({"drop_edges[0]": 0.1, "drop_edges[1]": 0.2, "hidden": "16"}) == {
        "drop_edges": (0.1, 0.2),
        "hidden": 16,
    }
    assert space.of(GRACE)["drop_edges[1]"] == 0.4
    assert "hidden" not in space.of(GRACE)  # 256 is none of the choices


def test_a_setting_that_would_undo_a_fixed_one_is_left_out() -> None:
    method = method_named("grace+")
    assert "effective_positives" in space_for(method, {}).dimensions
    assert "effective_positives" not in space_for(method.configure(tau_pos=0.2), {}, ["tau_pos"]).dimensions
    given = space_for(method, {"tau_pos": (0.1, 1.0)}).dimensions
    assert "tau_pos" in given and "effective_positives" not in given


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"tua": (0.1, 1.0)}, "unknown setting for grace 'tua'"),
        ({"tau": (1.0, 0.1)}, "low < high, found 1.0 and 0.1"),
        ({"tau": {"low": 0, "high": 1, "log": True}}, "above 0, found tau from 0"),
        ({"tau": {"low": 0.1}}, "search space of tau .* found low"),
        ({"tau": {"low": 0.1, "high": 1, "step": 2}}, "search space of tau"),
        ({"tau": {"low": "a", "high": 1}}, "low of tau must be a number, found 'a'"),
        ({"tau": (-1.0, 1.0)}, "tau must be a number > 0, found -1.0"),
        ({"tau": 3}, "search space of tau .* found 3"),
        ({"hidden": []}, "choices of hidden"),
        ({"hidden": [16, 16]}, "choices of hidden must differ"),
        ({"hidden": [object()]}, "choices of hidden"),
        ({"hidden": [16, -1]}, "hidden must be a whole number .* found -1"),
        ({"epochs": (1, 2)}, "epochs must be searched or fixed"),
    ],
)
def test_a_wrong_space_is_one_line(search: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        space_for(GRACE.configure(epochs=3), search, ["epochs"])


def test_test_labels_are_never_used(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a test score computed, nor does any test label change anything."""

    def never(*given: Any, **named: Any) -> None:
        raise AssertionError("a test score")

    for name in ("probe", "probe_torch", "probe_sklearn"):
        monkeypatch.setattr(f"graphkin.evaluation.probe.{name}", never)
    assert graph.y is not None
    test = tuning_splits(graph, Asked(GRACE))[0].test
    shuffled = graph.y.clone()
    shuffled[test] = shuffled[test.flip(0)]
    assert not torch.equal(shuffled, graph.y)
    assert told(quick(graph)) == told(quick(replace(graph, y=shuffled)))


@pytest.mark.parametrize("method", ["grace", "graph-mlp"])
def test_removed_test_labels_change_nothing_on_public_splits(method: str, small: Graph) -> None:
    assert small.y is not None and small.test_mask is not None
    without = replace(small, y=torch.where(small.test_mask, -1, small.y))
    assert told(quick(small, method, protocol="public")) == told(quick(without, method, protocol="public"))


def test_splits_share_their_test_nodes_and_no_seed_of_a_table(graph: Graph) -> None:
    splits = tuning_splits(graph, Asked(GRACE, splits=3))
    assert [split.seed for split in splits] == [FIRST_SEED, FIRST_SEED + 1, FIRST_SEED + 2]
    assert all(torch.equal(split.test, splits[0].test) for split in splits)
    assert [split.sizes for split in splits] == [{"train": 15, "val": 15, "test": 120}] * 3
    assert not torch.equal(splits[0].train, splits[1].train)


def test_held_out_edges_are_not_trained_on(graph: Graph) -> None:
    judge: Any = CRITERIA["edges"].ready(graph, Asked(GRACE))
    pairs, left, held, others = (
        {(int(a), int(b)) for a, b in index.T}
        for index in (graph.edge_index, judge.graph.edge_index, judge.edges, judge.others)
    )
    both = held | {(b, a) for a, b in held}
    assert len(held) == round(0.1 * graph.num_edges) == judge.others.size(1)
    assert left == pairs - both and both <= pairs
    assert not others & pairs and all(a != b for a, b in others)


def test_the_area_is_the_chance_to_be_above() -> None:
    draw = np.random.default_rng(0)
    one, other = draw.integers(0, 5, 20), draw.integers(0, 4, 30)
    by_pairs = np.mean([(a > b) + 0.5 * (a == b) for a in one for b in other])
    assert area(one.astype(float), other.astype(float)) == pytest.approx(by_pairs)


def test_a_model_agrees_with_itself(graph: Graph) -> None:
    judge = CRITERIA["agreement"].ready(graph, Asked(GRACE))
    one, other = graphkin.fit_repeats(graph, "grace", range(2), epochs=2, hidden=8)
    assert judge.score(one, ()) is None
    assert judge.score(one, (one,)) == 100
    between = judge.score(one, (other,))
    assert between is not None and 0 < between < 100
    for model in (one, other):
        for parameter in model.modules["encoder"].parameters():
            parameter.data.zero_()
    collapsed = judge.score(one, (other,))
    assert collapsed is not None and collapsed < 3 * 100 * 10 / graph.num_nodes  # chance


def test_auto_is_labels_where_there_are_any(graph: Graph) -> None:
    assert criterion_named("auto", graph).name == "labels"
    assert criterion_named("auto", replace(graph, y=None)).name == "edges"
    with pytest.raises(GraphError, match="criterion labels needs labels"):
        quick(replace(graph, y=None), criterion="labels")
    of_test = torch.zeros(graph.num_nodes, dtype=torch.long)
    of_test[tuning_splits(graph, Asked(GRACE))[0].test] = 1
    with pytest.raises(SplitError, match="at least 2 classes, found 1"):
        quick(replace(graph, y=of_test))
    with pytest.raises(SettingError, match="unknown criterion 'luck'"):
        quick(graph, criterion="luck")
    with pytest.raises(SettingError, match="repeats must be at least 2 for criterion agreement, found 1"):
        quick(graph, criterion="agreement", repeats=1)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_same_seed_gives_the_same_and_the_first_trial_is_no_search(criterion: str, graph: Graph) -> None:
    one, again, other = (quick(graph, "grace+", 3, criterion=criterion, seed=seed) for seed in (0, 0, 1))
    assert told(one) == told(again) != told(other)
    first, base = one.tried[0], method_named("grace+").configure(hidden=8, epochs=4)
    assert first.defaults and first is one.default
    assert all(base.settings()[name] == value for name, value in first.settings.items())
    assert one.best.score is not None and first.score is not None and one.best.score >= first.score
    assert one.method == base.configure(**one.best.settings)


def test_a_watch_does_not_change_training(graph: Graph) -> None:
    for method in ("grace+", "bgrl"):
        seen: list[Any] = []
        prepared = plan(graph, method, device="cpu", epochs=6, hidden=8).prepare()
        plain = prepared.train([0]).fitted[0]
        watched = prepared.train([0], watch=Watch((2, 6), seen.append)).fitted[0]
        assert watched.losses == plain.losses and torch.equal(watched.embed(graph), plain.embed(graph))
        assert len(seen) == 2 and not torch.equal(seen[0][0].embed(graph), plain.embed(graph))
        assert torch.equal(seen[1][0].embed(graph), plain.embed(graph))


def test_a_trial_is_compared_during_training_and_after_each_repeat(graph: Graph) -> None:
    judge = CRITERIA["labels"].ready(graph, Asked(GRACE, splits=2))
    scorer, method = Scorer(judge, 0, 3, "cpu", None), GRACE.configure(epochs=8, hidden=8)
    steps: list[int] = []

    def hopeless(at: int) -> Callable[[int, float], bool]:
        def compared(step: int, score: float) -> bool:
            steps.append(step)
            return step == at

        return compared

    scorer.score(method, hopeless(99))
    assert steps == [1, 2, 3, 4]
    with pytest.raises(PrunedError):
        scorer.score(method, hopeless(2))


def test_bad_trials_are_stopped_early(graph: Graph) -> None:
    rates = {"learning_rate": {"low": 1e-5, "high": 1.0, "log": True}}
    tuned = quick(graph, trials=30, criterion="edges", search=rates, epochs=12)
    counts = tuned.counts()
    assert counts[PRUNED] > 0 and counts[COMPLETE] >= 20 and sum(counts.values()) == 30
    assert tuned.best.state == COMPLETE
    assert sum(tuned.importance.values()) == pytest.approx(1)
    assert tuned.importance.keys() == tuned.space.dimensions.keys()


def test_a_folder_resumes_and_gives_what_one_call_gives(graph: Graph, tmp_path: Path) -> None:
    quick(graph, trials=2, out=tmp_path)
    with (tmp_path / JOURNAL).open("a") as journal:
        journal.write('{"op_code":4,"worker')  # half a line, as a killed process leaves
    resumed = quick(graph, trials=5, out=tmp_path)
    assert told(resumed) == told(quick(graph, trials=5))
    assert told(quick(graph, trials=5, out=tmp_path)) == told(resumed)  # nothing is left to do


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"graph": community_graph(160, classes=3)}, "another graph"),
        ({"search": {"tau": (0.1, 0.2)}}, "another search space"),
        ({"method": "gca"}, "another method"),
        ({"hidden": 9}, "another settings"),
        ({"seed": 1}, "another seed"),
        ({"criterion": "edges"}, "another criterion"),
    ],
)
def test_another_search_in_the_same_folder_is_refused(change: dict[str, Any], words: str, graph: Graph, tmp_path: Path) -> None:
    quick(graph, trials=1, out=tmp_path)
    before = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(OutputError, match=words):
        quick(**{"graph": graph, "trials": 2, "out": tmp_path, **change})
    assert (tmp_path / JOURNAL).read_bytes() == before


@pytest.mark.parametrize("content", ["nonsense\n", '{"op_code": 99}\n', '{"op_code": 0}\n', "[]\n"])
def test_a_damaged_journal_is_one_line(content: str, graph: Graph, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text(content)
    with pytest.raises(OutputError, match=r"trials\.journal"):
        quick(graph, out=tmp_path)


def test_two_searches_in_one_folder_at_a_time_are_refused(graph: Graph, tmp_path: Path) -> None:
    def second(tried: object) -> None:
        with pytest.raises(OutputError, match="another search is running"):
            quick(graph, trials=2, out=tmp_path)
        seen.append(tried)

    seen: list[object] = []
    quick(graph, trials=1, out=tmp_path, report=second)
    assert len(seen) == 1


def test_failed_trials_are_listed_and_all_failed_is_one_line(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def score(self: Scorer, method: object, hopeless: object) -> float:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 4 GiB")
        return 50.0 + calls

    monkeypatch.setattr(Scorer, "score", score)
    tuned = quick(graph)
    assert [one.state for one in tuned.tried] == [FAILED, COMPLETE, FAILED, COMPLETE]
    assert tuned.tried[0].failure == "CUDA out of memory. Tried to allocate 4 GiB"
    assert tuned.best.number == 4 and tuned.default is not None and tuned.default.score is None

    def diverge(self: Scorer, method: object, hopeless: object) -> float:
        raise graphkin.errors.DivergedError("the loss became nan")

    monkeypatch.setattr(Scorer, "score", diverge)
    with pytest.raises(InputError, match="all 2 trials failed; the first one: the loss became nan"):
        quick(graph, trials=2)

    def bug(self: Scorer, method: object, hopeless: object) -> float:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Scorer, "score", bug)
    with pytest.raises(RuntimeError, match="mistake"):
        quick(graph)


def test_time_ends_a_search_after_the_first_trial_at_the_earliest(graph: Graph) -> None:
    assert len(quick(graph, trials=50, seconds=1e-9).tried) == 1
    for name, value in (("trials", 0), ("seconds", 0), ("splits", 0), ("repeats", 0), ("seed", -1)):
        wrong: dict[str, Any] = {name: value}
        with pytest.raises(SettingError, match=f"{name} must be"):
            quick(graph, **wrong)


def test_settings_and_trials_are_written(graph: Graph, tmp_path: Path) -> None:
    tuned = quick(graph, "grace+", search={"activation": ["relu", "prelu"]})
    tuned.write(tmp_path)
    fitted = graphkin.fit(graph, preset=tmp_path / "settings.toml", progress="none")
    assert fitted.method.configure(feature_scale="auto") == tuned.method
    with (tmp_path / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == [one.state for one in tuned.tried]
    assert {row["activation"] for row in rows} <= {"relu", "prelu"}
    json.dumps(tuned.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("method = ", "is not a settings file"),
        ('method = "grace+"', "settings must be there"),
        ("[settings]\ntau = 0.4\n", "method must be there"),
        ('method = "grase"\n[settings]\n', "unknown method 'grase'"),
        ('method = "grace"\n[settings]\nbeta = 0.5\n', "unknown setting for grace 'beta'"),
        ('method = "grace"\n[settings]\ntau = -1\n', "tau must be a number > 0, found -1"),
        ('method = "grace"\n[settings]\ntau = { a = 1 }\n', "tau must be a number"),
        ('method = "grace"\n[settings]\n[more]\n', "found more besides"),
        ("\xff\xfe", "is not a settings file"),
    ],
)
def test_a_bad_settings_file_is_one_line(content: str, words: str, graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SettingError, match=words) as caught:
        graphkin.fit(graph, preset=str(path))
    assert str(path) in str(caught.value)


def test_a_preset_of_another_method_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('method = "grace"\n[settings]\nepochs = 2\nhidden = 8\n')
    assert graphkin.fit(graph, preset=path).method.name == "grace"
    assert graphkin.fit(graph, "grace", preset=path, epochs=3).method.optimiser.epochs == 3
    with pytest.raises(SettingError, match=r"has settings of grace; .* found 'gca'"):
        graphkin.fit(graph, "gca", preset=path)
    with pytest.raises(SettingError, match="no settings file at"):
        graphkin.fit(graph, preset=tmp_path / "other.toml")


def test_without_optuna_one_line_says_what_to_install(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'graphkin\[tune\]'"):
        quick(graph)
