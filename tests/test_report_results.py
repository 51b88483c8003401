from __future__ import annotations

import re
from dataclasses import replace

import pytest

from graphkin.experiments import SHIPPED, ExperimentRow, experiment_named
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.glance import glance
from graphkin.report.markdown import tables_as_markdown
from graphkin.report.page import reproduction_page
from graphkin.report.reading import agreement, mark, p_text, sentences_of, signed, spread, verdict
from graphkin.report.result_tables import result_tables
from tests.reports import BOTH, WHERE, cell, fetched, scripts_are_whole, summary, words_of
from tests.wording import told


def test_training_that_was_cut_short_is_no_result() -> None:
    whole = summary({"one": 1.0, "two": 1.0})
    made = replace(whole, cut_to=5)
    (said,) = sentences_of(made)
    words = words_of(reproduction_page([made], [WHERE], "graphkin report"))
    assert "5 epochs" in said and said in words
    assert verdict(whole) and verdict(whole) not in words
    assert agreement(whole) and agreement(whole) not in words


def test_a_page_of_other_measures_says_what_they_are() -> None:
    note = "Nothing is published."
    made = summary({"one": 1.0}, protocol="clustering", measures=("nmi", "ari"), published={}, note=note)
    page = reproduction_page([made], [WHERE], "graphkin report")
    words, markdown = words_of(page), tables_as_markdown([made])
    for text in (words, markdown):
        assert told(text, "clustering", "nmi: normalised mutual information", "ari: adjusted Rand index", note)
        assert "ccuracy" not in text
    captions = re.findall(r"<caption><span>(.*?)</span>", page)
    assert captions[1:3] == ["Normalised mutual information in percent", "Adjusted Rand index in percent"]
    assert result_tables(made)[0].rows[2][1][0].detail == "1.2 s of training per run", "no validation"


def test_every_wanted_cell_is_on_the_page() -> None:
    made = summary({"one": 1.0})
    page = reproduction_page([made], [WHERE], "graphkin report")
    words = words_of(page)
    assert len(re.findall(r"<td tabindex=\"0\"(?: data-\w+=\"[^\"]*\")*>\s*<div class=\"ours", page)) == 3 * 2
    assert words.count("missing 0 of 4 seeds") == 3
    assert "12 of 24 results" in words
    assert "70.00 ± 1.00" in words  # published of a cell that is missing
    for text in ("TestOS", "A GPU", "python 3.12", "abc1234", "graphkin report", verdict(made), agreement(made)):
        assert text in words


def test_numbers_on_the_page_are_the_summary_s() -> None:
    made = summary({"one": 1.0, "two": -1.0})
    page = reproduction_page([made], [], "")
    words = words_of(page)
    for (row, dataset, measure), found in made.cells.items():
        assert re.search(rf"{re.escape(spread(found.mean, found.std))} ([+−]?[\d.]+[▲▼]? )?4 seeds", words)
        assert f'data-ours="{found.mean!r}"' in page
        gain = made.gain(row, dataset, measure)
        if gain is not None:
            assert " ".join(f"gain {signed(gain.points)} {mark(gain)} {p_text(gain.p_value)}".split()) in words
        difference = found.against_published(4)
        if difference is not None:
            assert f"to paper {signed(difference.points)}" in words
            assert f'data-difference="{difference.points!r}"' in page


def test_incomplete_cells_say_how_many_seeds() -> None:
    made = summary({"one": 1.0, "two": 1.0})
    made = Summary(made.experiment, {**made.cells, ("Base+", "one", "test"): cell(81, seeds=1)})
    words = words_of(reproduction_page([made], [], ""))
    assert "1 of 4 seeds" in words
    assert "p unknown (significance unknown)" in words
    assert told(verdict(made), "above", "too few seeds", "one")
    assert ", n = 1 of 4" in tables_as_markdown([made])


@pytest.mark.parametrize("name", SHIPPED)
def test_pages_of_shipped_experiments_without_any_run(name: str) -> None:
    made = Summary(experiment_named(name), {})
    page = reproduction_page([made], [], "graphkin report")
    cells = len(made.experiment.rows) * len(made.experiment.datasets) * len(made.experiment.measures)
    assert words_of(page).count("missing 0 of ") == cells
    assert tables_as_markdown([made]).count("*missing*, n = 0 of ") == cells
    assert fetched(page) == []


def test_text_of_users_is_escaped() -> None:
    nasty = "</script><b>&"
    made = summary({"one": 1.0}, title=nasty, rows=(ExperimentRow(nasty, "grace"), ExperimentRow("Base", "grace")), axis=nasty)
    page = reproduction_page([made], [{"commit": nasty}], nasty)
    assert "<b>&" not in page
    assert scripts_are_whole(page)
    assert nasty in words_of(page)


def test_a_cell_is_one_line_and_the_rest_is_at_hand() -> None:
    page = reproduction_page([summary({"one": 1.0, "two": -1.0})], [], "")
    cells = re.findall(
        r'<td tabindex="0"[^>]*>\s*<div class="ours[^"]*">(.*?)</div>\s*<div class="rest">(.*?)</td>', page, re.DOTALL
    )
    assert len(cells) == 3 * 2
    lines, rests = ([words_of(part) for part in parts] for parts in zip(*cells, strict=True))
    assert lines[4] == "81.00 ± 0.91 +1.00▲"
    assert told(rests[4], "4 seeds", "gain", "+1.00 ▲", "p < 0.001", "paper 99.00 ± 0.50", "to paper", "validation", "1.2 s")


def test_the_page_opens_with_all_experiments_at_a_glance() -> None:
    free = ExperimentRow("free", baseline="best free")
    tables = summary({"one": 1.0, "two": -1.0}, rows=(free, *BOTH), name="tables")
    figure = summary({"two": 1.0}, name="points", protocol="few-labels", measures=("1", "3"), axis="labels", published={})
    found = glance([tables, figure])
    assert found.datasets == ("one", "two")
    (first, compared), (second, counted) = found.experiments
    assert (first.name, second.name) == ("tables", "points")
    assert [(one.row, one.other) for one in compared] == [("Base+", "Base"), ("Base+", "free")]
    marks = [[None if cell is None else cell.marks for cell in one.cells] for one in (*compared, *counted)]
    above, below = (("▲", "+1.00"),), (("▼", "−1.00"),)
    assert marks == [[above, below], [above, below], [(), (("▲", "2"),)]]
    page = words_of(reproduction_page([tables, figure], [], ""))
    assert told(page, "At a glance", "Base+ − Base +1.00 ▲ (significantly above)", "−1.00 ▼", "Base+ − free", "How to read")


def test_a_glance_tells_chance_from_certainty() -> None:
    made = summary({"one": 1.0, "two": 1.0})
    scattered = Cell({0: 90.0, 1: 71.0, 2: 90.0, 3: 71.0}, {}, 4)
    one = {("Base+", "one", "test"): scattered, ("Base+", "two", "test"): cell(81, seeds=1)}
    ((_, (compared, *_)),) = glance([Summary(made.experiment, {**made.cells, **one})]).experiments
    assert [cell.marks[0][0] for cell in compared.cells if cell is not None] == ["≈", "?"]


def test_methods_are_compared_with_a_base_that_needs_no_training() -> None:
    rows = (ExperimentRow("Base", baseline="best free"), ExperimentRow("a", "grace"), ExperimentRow("kin", "kin"))
    ((_, compared),) = glance([summary({"one": 1.0}, rows=rows, published={})]).experiments
    assert [(one.row, one.other) for one in compared] == [("a", "Base"), ("kin", "Base")]


def test_a_row_of_one_seed_is_the_same_for_all_seeds() -> None:
    rows = (ExperimentRow("free", baseline="propagated features", seeds=1), *BOTH)
    made = summary({"one": 1.0}, rows=rows, published={})
    made = Summary(made.experiment, {**made.cells, ("free", "one", "test"): Cell({0: 70.0}, {}, 1)})
    ((_, (_, compared)),) = glance([made]).experiments
    assert compared.cells[0] is not None and compared.cells[0].marks == (("▲", "+11.00"),)


def test_nothing_is_at_a_glance_without_a_comparison_or_with_training_cut_short() -> None:
    made = summary({"one": 1.0})
    for one in (summary({"one": 1.0}, base=None), replace(made, cut_to=5)):
        assert glance([one]).experiments == ()
        assert "At a glance" not in words_of(reproduction_page([one], [], ""))
