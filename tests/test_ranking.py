"""Ranks and tests of a leaderboard, on made-up cells."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from graphkin.errors import SettingError
from graphkin.experiments import PEERS, SEARCHES, ExperimentRow, experiment_named
from graphkin.experiments.board import NOT_ASKED, NOT_RUN, Board, joined
from graphkin.experiments.ranking import Duel, best_on, compared, duels, holm, ranking
from graphkin.experiments.summary import Cell, Cost, Summary
from tests.reports import experiment
from tests.wording import refused

ROWS = tuple(ExperimentRow(name, name.lower()) for name in ("GRACE", "GCA", "kin"))


def made(means: dict[str, dict[str, float]], seeds: int = 6, noise: float = 0.2) -> Board:
    """Rows by graph, each around its mean with noise of its own."""
    draw = np.random.default_rng(0)
    cells = {}
    for row, graphs in means.items():
        for graph, mean in graphs.items():
            values = {seed: mean + noise * float(draw.normal()) for seed in range(seeds)}
            cells[row, graph, "accuracy"] = Cell(values, {}, seeds)
    datasets = tuple(dict.fromkeys(graph for graphs in means.values() for graph in graphs))
    return Board({row.name: row for row in ROWS if row.name in means}, datasets, ("accuracy",), cells)


BOARD: dict[str, Any] = {"protocol": "leaderboard", "measures": ("accuracy",), "base": None, "published": {}}
FULL = made({"GRACE": {"a": 80, "b": 70, "c": 60}, "GCA": {"a": 82, "b": 72, "c": 58}, "kin": {"a": 84, "b": 74, "c": 64}}, 20)


def test_ranks_are_means_over_graphs_with_the_critical_difference_of_nemenyi() -> None:
    found = ranking(FULL, "accuracy")
    assert found is not None and found.datasets == ("a", "b", "c")
    assert found.ranks == {"GRACE": pytest.approx(8 / 3), "GCA": pytest.approx(7 / 3), "kin": 1.0}
    assert found.critical == pytest.approx(2.343 * math.sqrt(3 * 4 / (6 * 3)), abs=2e-3), "Demšar 2006, table 5: q = 2.343"


def test_equal_means_share_a_rank() -> None:
    board = replace(FULL, cells={key: Cell({0: 1.0}, {}, 1) for key in FULL.cells})
    found = ranking(board, "accuracy")
    assert found is not None and set(found.ranks.values()) == {2.0}


def test_ranks_are_of_graphs_that_all_ranked_rows_have() -> None:
    some = made({"GRACE": {"a": 80, "b": 70, "c": 60, "d": 60}, "GCA": {"a": 82, "b": 72}, "kin": {"a": 84}})
    found = ranking(some, "accuracy")
    assert found is not None
    assert found.datasets == ("a", "b") and set(found.ranks) == {"GRACE", "GCA"}, "kin has a quarter of the graphs"
    assert ranking(made({"GRACE": {"a": 80}, "GCA": {"a": 81}}), "accuracy") is None, "one graph"
    assert ranking(FULL, "nmi") is None


def test_holm_is_the_step_down_correction() -> None:
    given = {("a", "b"): 0.01, ("a", "c"): 0.04, ("b", "c"): 0.03, ("a", "d"): math.nan}
    found = holm(given)
    assert math.isnan(found.pop(("a", "d")))
    assert found == pytest.approx({("a", "b"): 0.03, ("b", "c"): 0.06, ("a", "c"): 0.06})


def test_pairs_are_compared_on_seeds_that_both_have_and_corrected() -> None:
    found = compared(FULL, "a", "accuracy")
    one, other = (list(FULL.cell(row, "a", "accuracy").test.values()) for row in ("kin", "GRACE"))
    alone = stats.ttest_rel(one, other).pvalue
    assert found["kin", "GRACE"].points == pytest.approx(np.mean(one) - np.mean(other))
    assert alone <= found["kin", "GRACE"].p_value <= 3 * alone
    assert found["GRACE", "kin"].points == -found["kin", "GRACE"].points
    cells = {**FULL.cells, ("kin", "a", "accuracy"): Cell({100: 84.0}, {}, 20)}
    assert ("kin", "GRACE") not in compared(replace(FULL, cells=cells), "a", "accuracy")


def test_wins_ties_and_losses() -> None:
    found = duels(FULL, "accuracy")
    assert found["kin", "GRACE"] == Duel(wins=3) and found["GRACE", "kin"] == Duel(losses=3)
    assert found["GCA", "GRACE"] == Duel(wins=2, losses=1)
    level = made({"GRACE": {"a": 80.0}, "GCA": {"a": 80.0}}, noise=3)
    assert duels(level, "accuracy")["GRACE", "GCA"] == Duel(ties=1)
    few = made({"GRACE": {"a": 80.0}, "GCA": {"a": 90.0}}, seeds=2)
    assert duels(few, "accuracy")["GRACE", "GCA"] == Duel(untested=1)


def test_the_best_rows_of_a_graph_are_those_not_significantly_below() -> None:
    board = made({"GRACE": {"a": 80.0}, "GCA": {"a": 85.0}, "kin": {"a": 85.1}}, noise=1.0, seeds=10)
    assert best_on(board, "a", "accuracy") in (["kin", "GCA"], ["GCA", "kin"])
    assert best_on(board, "a", "nmi") == []


def test_a_row_with_few_seeds_leads_once_it_can_be_tested() -> None:
    whole = made({"GRACE": {"a": 80.0}, "kin": {"a": 85.0}}, seeds=10)
    for count, best in ((2, ["GRACE", "kin"]), (4, ["kin"])):
        some = dict(list(whole.cell("kin", "a", "accuracy").test.items())[:count])
        cells = {**whole.cells, ("kin", "a", "accuracy"): Cell(some, {}, 10)}
        assert best_on(replace(whole, cells=cells), "a", "accuracy") == best


def test_experiments_are_joined_and_empty_cells_say_why() -> None:
    on_one, on_two = (
        experiment(
            name=name, protocol="leaderboard", measures=("accuracy",), datasets=(name,), rows=rows, base=None, published={}
        )
        for name, rows in (("one", ROWS), ("two", ROWS[:1]))
    )
    cells = {("GRACE", "one", "accuracy"): Cell({0: 80.0}, {}, 4, costs={"CPU": Cost(2.0, math.nan, 1)})}
    board = joined([Summary(on_one, cells), Summary(on_two, {})])
    assert board.datasets == ("one", "two") and board.measures == ("accuracy",)
    assert board.missing("kin", "one", "accuracy") == NOT_RUN and board.missing("kin", "two", "accuracy") == NOT_ASKED
    assert board.cost("GRACE", "one") == ("CPU", Cost(2.0, math.nan, 1)) and board.cost("kin", "one") is None
    other = replace(on_one, rows=(ExperimentRow("kin", "grace"),))
    with refused(SettingError, "'kin'", "one"):
        joined([Summary(on_one, {}), Summary(other, {})])


def test_peers_ask_for_the_same_rows_everywhere_and_state_their_trials() -> None:
    boards = [experiment_named(name) for name in PEERS]
    assert [row.name for row in boards[0].rows] == [row.name for row in boards[1].rows]
    assert sum(len(board.datasets) for board in boards) == 11
    for board in boards:
        large = {"pubmed", "dblp", "cs", "more/facebook_page.npz"}
        for row in board.rows:
            assert {name: len(board.seeds_of(row, name)) for name in board.datasets} == {
                name: 10 if name in large else 20 for name in board.datasets
            }
    rows = {row.name: row for row in boards[0].rows}
    for name, search in (("GRACE+", "search-grace"), ("GCA+", "search-gca")):
        searched = experiment_named(search)
        assert search in SEARCHES
        for dataset in set(searched.datasets) & set(boards[0].datasets):
            assert rows[name].trials_on(dataset) == len(searched.rows)
    assert rows["kin"].trials is None and rows["kin"].trained and not rows["best free"].trained
    assert not rows["diffusion"].trained
