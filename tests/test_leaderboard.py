"""One training scored by several protocols: run, stored with its cost, and read beside runs by single protocols."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphkin import evaluate
from graphkin.errors import OutputError
from graphkin.evaluation.free import BEST_FREE, FREE, FreeRows
from graphkin.experiments import Experiment, parse, scoring
from graphkin.experiments.execute import execute
from graphkin.experiments.jobs import jobs_of
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from graphkin.experiments.summary import summarise
from graphkin.graphs.graph import Graph
from graphkin.graphs.synthetic import community_graph
from graphkin.training.fit import fit
from tests.test_store import DESCRIPTION, RUN
from tests.wording import refused

DEFINITION = """
title = "A board"
protocol = "leaderboard"
seeds = 2
datasets = ["small"]
measures = ["accuracy", "nmi", "ari", "sim@5"]
base = "best free"
[[rows]]
name = "best free"
baseline = "best free"
[[rows]]
name = "GRACE"
method = "grace"
settings = { hidden = 8, epochs = 3 }
[[rows]]
name = "diffusion"
method = "diffusion"
"""
HABITS = DEFINITION.replace('"nmi", "ari", "sim@5"', '"habit-refit", "habit-swapped", "habit-best-test"')


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(300, seed=0)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_measured", {})
    monkeypatch.setattr(scoring, "_last_row", {})


def filled(path: Path, graph: Graph, experiment: Experiment) -> Store:
    store = Store(path)
    for job in jobs_of([experiment], {"small": graph}, store.finished()):
        for found in execute(job, graph):
            assert isinstance(found, Outcome), found
            store.add(found, job.trial.description)
    return store


def test_one_training_has_all_measures_and_their_habits(graph: Graph, tmp_path: Path) -> None:
    board = parse("board", DEFINITION)
    with closing(filled(tmp_path / "a.sqlite", graph, board)) as store:
        rows = fit(graph, "grace", hidden=8, epochs=3, seed=1, device="cpu").embed(graph)
        expected = evaluate(rows, graph, protocol="leaderboard", splits=1, seed=1).values
        summary = summarise(board, store)
        for measure in board.measures:
            assert summary.cell("GRACE", "small", measure).test[1] == pytest.approx(expected[measure][0])
        habits = parse("habits", HABITS).only(rows=["GRACE"])
        assert habits is not None and not jobs_of([habits], {"small": graph}, store.finished()), "the same runs"
        for habit in habits.measures[1:]:
            found = summarise(habits, store).cell("GRACE", "small", habit).test[1]
            assert found == pytest.approx(evaluate(rows, graph, protocol=habit, splits=1, seed=1).mean)


def test_the_best_free_row_is_chosen_by_accuracy_and_gives_the_other_measures(graph: Graph, tmp_path: Path) -> None:
    board = parse("board", DEFINITION)
    with closing(filled(tmp_path / "a.sqlite", graph, board)) as store:
        cells = {measure: summarise(board, store).cell(BEST_FREE, "small", measure) for measure in board.measures}
    free = FreeRows(graph)
    for seed in (0, 1):
        scores = {name: evaluate(free[name], graph, splits=1, seed=seed).values for name in FREE}
        best = max(FREE, key=lambda name: scores[name]["val_accuracy"])
        assert {cell.chosen[seed] for cell in cells.values()} == {best}
        whole = evaluate(free[best], graph, protocol="leaderboard", splits=1, seed=seed).values
        assert {measure: cell.test[seed] for measure, cell in cells.items()} == {
            measure: pytest.approx(whole[measure][0]) for measure in board.measures
        }


def test_time_and_memory_of_training_come_with_their_machine(graph: Graph, tmp_path: Path) -> None:
    board = parse("board", DEFINITION)
    with closing(filled(tmp_path / "a.sqlite", graph, board)) as store:
        store.export(tmp_path / "a.json")
        summary = summarise(board, store)
        ((machine, cost),) = summary.cell("GRACE", "small", "nmi").costs.items()
        assert machine.startswith(("CPU, ", "NVIDIA")) and cost.runs == 2
        assert cost.seconds > 0 and cost.peak_bytes > 2**20
        for row in (BEST_FREE, "diffusion"):
            assert summary.cell(row, "small", "nmi").count == 2
            assert not summary.cell(row, "small", "nmi").costs, "nothing was trained"
        with closing(Store(tmp_path / "a.json", read_only=True)) as again:
            assert again.outcomes() == store.outcomes()


def test_a_run_by_the_single_protocol_is_read_where_the_board_has_none(graph: Graph, tmp_path: Path) -> None:
    alone = DEFINITION.replace('"leaderboard"', '"grace"').replace('"accuracy", "nmi", "ari", "sim@5"', '"10 %"')
    board, grace = parse("board", DEFINITION), parse("grace", alone)
    with closing(filled(tmp_path / "a.sqlite", graph, grace)) as store:
        read, run = summarise(board, store), summarise(grace, store)
        for row in ("GRACE", BEST_FREE):
            one, other = read.cell(row, "small", "accuracy"), run.cell(row, "small", "10 %")
            assert (one.test, one.val, one.chosen, one.costs) == (other.test, other.val, other.chosen, other.costs)
            assert one.count == 2 and not read.cell(row, "small", "nmi").count
    with closing(filled(tmp_path / "a.sqlite", graph, board)) as store:
        for row in ("GRACE", BEST_FREE):
            assert summarise(board, store).cell(row, "small", "accuracy").test == run.cell(row, "small", "10 %").test


def test_stores_of_earlier_versions_have_no_memory(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "a.sqlite")) as store:
        store.add(RUN, DESCRIPTION)
        store.export(tmp_path / "a.json")
        assert "peaks" not in json.loads((tmp_path / "a.json").read_text())
        store.add(replace(RUN, seed=4, peak_bytes=7), DESCRIPTION)
        assert [one.peak_bytes for one in store.outcomes()] == [None, 7]


@pytest.mark.parametrize("value", ["much", 1.5, {"a": 1}])
def test_a_peak_that_is_no_number_of_bytes_is_refused(value: Any, tmp_path: Path) -> None:
    with closing(Store(tmp_path / "a.sqlite")) as store:
        store.add(replace(RUN, peak_bytes=value), DESCRIPTION)
    with refused(OutputError, tmp_path / "a.sqlite", "peak_bytes"):
        Store(tmp_path / "a.sqlite")
