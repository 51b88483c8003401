"""``graphkin.tune``: trials that repeat and resume, and what becomes of failures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphkin
from graphkin import Graph
from graphkin.errors import InputError, OutputError, SettingError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import method_named
from graphkin.training.loop import Watch
from graphkin.training.plan import plan
from graphkin.tuning.criteria import CRITERIA, Asked
from graphkin.tuning.outcome import COMPLETE, FAILED, PRUNED
from graphkin.tuning.scoring import PrunedError, Scorer
from graphkin.tuning.trials import JOURNAL
from tests.searches import GRACE, quick, told


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(150, classes=3, mean_degree=8, words=30, words_of_node=8)


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


def test_without_optuna_one_line_says_what_to_install(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'graphkin\[tune\]'"):
        quick(graph)
