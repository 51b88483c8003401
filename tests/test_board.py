"""A leaderboard as a page and as a document."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphkin.errors import SettingError
from graphkin.evaluation.protocols import HABITS
from graphkin.experiments import ExperimentRow, experiment_named, parse
from graphkin.experiments.board import Board, board_of
from graphkin.experiments.published import published
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, Cost
from graphkin.graphs.catalogue import DATASETS
from graphkin.report import board_markdown
from graphkin.report.board import cost_words, settings_words, shown_board
from graphkin.report.graph_facts import KINDS, graph_facts, graph_kinds
from graphkin.report.habits import AS_OURS, beside_published, habit_gains
from graphkin.report.page import reproduction_page
from scripts import graph_facts as facts_script
from scripts import leaderboard_page
from tests.browsing import Browser, errors, every, one, visit
from tests.documents import blocks, page, run_shown
from tests.reports import WHERE, fetched, scripts_are_whole, words_of
from tests.test_leaderboard import DEFINITION
from tests.wording import refused, told

ROWS = {
    "best free": ExperimentRow("best free", baseline="best free"),
    "BGRL": ExperimentRow("BGRL", "bgrl"),
    "GRACE+": ExperimentRow("GRACE+", "grace+", trials={"cora": 7}),
    "kin": ExperimentRow("kin", "kin"),
}
MEANS = {"best free": 84.0, "BGRL": 80.0, "GRACE+": 81.0, "kin": 86.0}


def made() -> Board:
    """Four rows on two known graphs and one of a user's own; kin was not run on one of them."""
    draw = np.random.default_rng(0)
    datasets, cells = ("cora", "computers", "mine.npz"), {}
    for row, mean in MEANS.items():
        for place, dataset in enumerate(datasets):
            for measure in ("accuracy", "nmi", "gca", *HABITS):
                level = mean - place + (measure in HABITS)
                values = {seed: level + 0.1 * float(draw.normal()) for seed in range(6)}
                known = {} if (row, dataset) == ("kin", "computers") else values
                costs = {"A GPU": Cost(12.0, 3 * 2**30, 6)} if ROWS[row].trained and known else {}
                cells[row, dataset, measure] = Cell(known, {}, 6, costs=costs)
    return Board(ROWS, datasets, ("accuracy", "nmi"), cells)


@pytest.fixture
def html() -> str:
    return reproduction_page([], [WHERE], "graphkin report", made())


def test_the_page_answers_which_method_for_which_graph(html: str) -> None:
    cora, computers, mine = shown_board(made()).advice
    assert (cora.rows, cora.graph, cora.facts["features"]) == (["kin"], "cora", 1433)
    assert cora.gain.startswith("+2.") and cora.gain.endswith("▲") and cora.cost == "12 s, 3.0 GiB (A GPU)"
    assert computers.rows == ["best free"] and computers.cost == "no training" and computers.gain == ""
    assert mine.graph == "mine" and not mine.facts
    assert told(words_of(html), "Which method for which graph?", "cora", "1,433", "kin", "12 s, 3.0 GiB", "not run")
    assert scripts_are_whole(html) and fetched(html) == []


def test_cells_say_why_they_are_empty_and_what_is_behind_them() -> None:
    accuracy, nmi = shown_board(made()).tables
    rows = {row.name: row for row in accuracy.rows}
    assert rows["kin"].cells[1].text == "not run" and rows["kin"].cells[1].key is None
    assert rows["kin"].cells[0].best and not rows["GRACE+"].cells[0].best
    assert any("7 trials" in line for line in rows["GRACE+"].cells[0].detail)
    assert not rows["best free"].trained and rows["kin"].trained
    assert told(accuracy.ranks, "2 graphs", "cora and mine", "4 rows", "Nemenyi")
    assert rows["best free"].rank is not None and nmi.measure == "nmi"


def test_rows_say_where_their_settings_come_from() -> None:
    datasets = ("cora", "computers", "mine.npz")
    assert told(settings_words(ROWS["GRACE+"], datasets), "tuned on validation", "7 trials", "cora", "others")
    assert settings_words(ROWS["kin"], datasets) == "one for all graphs"
    assert "validation" in settings_words(ROWS["best free"], datasets)
    own = ExperimentRow("x", "kin", on={"cora": {"tau": 0.3}})
    assert told(settings_words(own, datasets), "each of cora")


@pytest.mark.parametrize(("given", "facts"), [("0", ["trials", "1", "0"]), ("{ big = 3 }", ["'big'", "small"])])
def test_trials_that_are_none_are_refused(given: str, facts: list[str]) -> None:
    with refused(SettingError, *facts):
        parse("x", DEFINITION + f"trials = {given}\n")


def test_costs_in_words() -> None:
    assert cost_words("CPU", Cost(3.14, math.nan, 2)) == "3.1 s (CPU)"
    assert cost_words("CPU", Cost(1200.0, 2**29, 2)) == "20 min, 0.5 GiB (CPU)"


def test_the_document_has_the_numbers_of_the_board() -> None:
    board = made()
    text = board_markdown.measure_tables(board)
    cell = board.cell("kin", "cora", "accuracy")
    assert f"**{cell.mean:.2f} ± {cell.std:.2f}**" in text and "### NMI" in text
    assert "| kin | 2–0–0 |" in board_markdown.pairs_table(board)
    assert told(board_markdown.cost_table(board), "kin", "12 s, 3.0 GiB (A GPU)", "not run")
    assert "No runs yet" in board_markdown.measure_tables(replace(board, cells={}))
    assert "No runs yet" in board_markdown.pairs_table(replace(board, cells={}))
    assert "not run" in board_markdown.advice_table(replace(board, cells={}))


def test_published_numbers_stand_beside_ours_under_both_protocols() -> None:
    found = {(one.row, one.graph, one.published): one for one in beside_published(made())}
    refit = found["BGRL", "computers", "90.34"]
    assert (
        float(refit.theirs.split()[0]) == pytest.approx(float(refit.ours.split()[0]) + 1, abs=0.3)
        and "habit-refit" in refit.theirs
    )
    assert "[readme]" in refit.source
    again = found["BGRL", "computers", "88.20 to 89.70"]
    assert again.theirs == AS_OURS and "[2nd]" in again.source
    assert not any(one.row == "SIGNA" for one in found.values()), "no row of this board"
    gains = dict(habit_gains(made()))
    assert all(told(text, "to +1.", "3 graphs") for text in gains["BGRL"]) and "best free" not in gains


def test_published_numbers_have_a_source_a_mark_and_a_known_habit() -> None:
    for entry in published():
        assert set(entry.mark.split(", ")) <= {"paper", "code", "readme", "2nd"} and entry.source
        assert entry.protocol is None or entry.protocol in (*HABITS, "gca")
        assert set(entry.values) <= set(DATASETS)
        for value in entry.values.values():
            low, *rest = value if isinstance(value, list) else [value]
            assert 60 < low < 100 and all(low < high for high in rest)


def test_graphs_are_found_by_what_they_are_like() -> None:
    kinds = graph_kinds(["cora", "mine.npz", "more/minesweeper.npz"])
    assert set(kinds) <= set(KINDS)
    assert [places for kind, places in kinds.items() if "features" in kind] == [[0], [2]]
    assert graph_kinds(["mine.npz"]) == {}
    for name in set(graph_facts()) & set(DATASETS):
        facts, known = graph_facts()[name], DATASETS[name]
        assert (facts["nodes"], facts["features"], facts["classes"]) == (known.nodes, known.features, known.classes)


@pytest.mark.data
def test_the_facts_are_those_of_the_graphs() -> None:
    assert facts_script.FILE.read_text(encoding="utf-8") == facts_script.text()


@pytest.mark.slow
def test_the_document_is_the_committed_runs() -> None:
    text = leaderboard_page.PAGE.read_text(encoding="utf-8")
    assert leaderboard_page.page(text) == text


def test_other_experiments_have_no_board(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.sqlite")
    assert board_of([experiment_named("kin")], store) is None
    peers = experiment_named("peers")
    assert board_of([replace(peers, measures=("gca",))], store) is None, "no measure of the board"
    empty = board_of([peers], store)
    assert empty is not None and empty.missing("kin", "cora", "nmi") == "not run"
    store.close()


def test_a_row_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the document shows, on a graph of 200 nodes and with two epochs."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    labels = np.arange(200) // 100
    edges = np.argwhere(np.triu(draw.random((200, 200)) < np.where(labels[:, None] == labels, 0.06, 0.01), 1)).T
    np.savez("my-graph.npz", x=draw.random((200, 16)).astype(np.float32) + 0.3 * labels[:, None], edge_index=edges, y=labels)
    text = page("leaderboard").split("## Add your method or graph")[1]
    (definition,) = blocks("toml", text)
    Path("mine.toml").write_text(definition, encoding="utf-8")
    run_shown([line for block in blocks("sh", text) for line in block.splitlines()], capsys)
    words = words_of(Path("mine.html").read_text(encoding="utf-8"))
    assert told(words, "Which method for which graph?", "my-graph", "cut to 2 epochs", "best free", "kin", "mine")
    assert "tuned on validation with 12 trials on each of my-graph" in words


def visible(browser: Browser, selector: str) -> list[str]:
    return [found.text for found in every(browser, selector) if found.is_displayed()]


@pytest.mark.browser
def test_the_page_filters_and_sorts(browser: Browser, html: str, tmp_path: Path) -> None:
    path = tmp_path / "board.html"
    path.write_text(html, encoding="utf-8")
    visit(browser, path.as_uri())
    assert errors(browser) == []
    assert len(visible(browser, ".board")) == 1, "one measure at a time"

    def choose(name: str, words: str) -> None:
        option: Any = next(o for o in every(browser, f"#by-{name} option") if words in o.text)
        option.click()

    rows = "#board-accuracy tbody th"
    assert visible(browser, rows) == list(MEANS)
    choose("training", "without training")
    assert visible(browser, rows) == ["best free"]
    choose("training", "all")
    choose("graph", "fewer features")
    assert [words.split()[0] for words in visible(browser, "#board-accuracy thead th")] == ["row", "computers"]
    choose("graph", "all")
    every(browser, "#board-accuracy thead button")[2].click()
    assert visible(browser, rows) == sorted(MEANS, key=lambda row: -MEANS[row])
    choose("measure", "NMI")
    assert visible(browser, ".board table caption")[0].startswith("NMI")
    choose("measure", "seconds and memory")
    assert "12 s" in one(browser, "#board-cost").text
    visit(browser, path.as_uri(), 390, 844)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
