from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from graphkin.experiments import ExperimentRow
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.markdown import tables_as_markdown
from graphkin.report.reading import (
    agreement,
    cell_of,
    failed_runs,
    free_rows,
    others_below,
    p_text,
    signed,
    spread,
    verdict,
)
from tests.reports import BOTH, cell, summary
from tests.wording import told


@pytest.mark.parametrize(
    ("value", "text"), [(1.234, "+1.23"), (-0.5, "−0.50"), (0.0, "0.00"), (-0.001, "0.00"), (12.0, "+12.00")]
)
def test_signs(value: float, text: str) -> None:
    assert signed(value) == text


def test_numbers_as_text() -> None:
    assert spread(83.617, 1.134) == "83.62 ± 1.13"
    assert spread(83.617, math.nan) == "83.62"
    assert [p_text(p) for p in (0.0001, 0.0123, 0.9, math.nan)] == ["p < 0.001", "p = 0.012", "p = 0.900", "p unknown"]


ABOVE, BELOW = "significantly above", "significantly below"


def test_verdict_names_the_datasets_on_each_side() -> None:
    assert told(verdict(summary({"one": 1.0, "two": 1.0})), "Base+", ABOVE, "Base", "one (+1.00)", "two (+1.00)")
    assert told(verdict(summary({"one": 1.0, "two": -1.0})), "Base+", ABOVE, "Base", "one (+1.00)", BELOW, "two (−1.00)")
    noisy = summary({"one": 1.0, "two": 1.0})
    scattered = replace(noisy.cell("Base+", "two", "test"), test={0: 90.0, 1: 71.0, 2: 90.0, 3: 71.0})
    noisy = Summary(noisy.experiment, {**noisy.cells, ("Base+", "two", "test"): scattered})
    assert told(verdict(noisy), ABOVE, "one (+1.00)", "above", "not significantly", "two (+0.50)")
    assert told(verdict(summary({"one": 1.0})), ABOVE, "one (+1.00)", "not yet comparable", "two")
    assert told(verdict(summary({"one": 0.0, "two": 1.0})), ABOVE, "two (+1.00)", "equal", "one (0.00)")


def test_verdict_counts_the_points_of_a_figure() -> None:
    points = summary(
        {"one": 1.0, "two": 1.0}, protocol="few-labels", measures=("1", "3"), axis="labels of a class", published={}
    )
    assert told(verdict(points), "Base+", ABOVE, "Base", "4 of 4 points")
    assert BELOW not in verdict(points) and "one" not in verdict(points)
    below = replace(points.cell("Base", "two", "3"), test=cell(86).test)
    points = Summary(points.experiment, {**points.cells, ("Base", "two", "3"): below})
    three = ("one at 1 (+1.00)", "one at 3 (+1.00)", "two at 1 (+1.00)")
    assert told(verdict(points), ABOVE, "3 of 4 points", *three, BELOW, "1 of 4 points", "two at 3 (−5.00)")


def test_verdict_names_measures_that_are_no_points_of_a_figure() -> None:
    made = summary({"one": 1.0, "two": -1.0}, protocol="clustering", measures=("nmi", "ari"), published={})
    above, below = ("nmi on one (+1.00)", "ari on one (+1.00)"), ("nmi on two (−1.00)", "ari on two (−1.00)")
    assert told(verdict(made), ABOVE, "2 of 4 cells", *above, BELOW, "2 of 4 cells", *below)


def test_no_verdict_without_rows_to_compare() -> None:
    assert verdict(summary({"one": 1.0}, base=None)) == ""
    grid = (ExperimentRow("Base", "grace"), ExperimentRow("a", "grace+"), ExperimentRow("b", "grace+"))
    assert verdict(summary({"one": 1.0}, rows=grid)) == ""
    assert verdict(summary({"one": 1.0}, rows=grid[:2])).startswith("a is ")


def test_agreement_counts_cells_beside_the_paper() -> None:
    assert told(agreement(summary({"one": 1.0, "two": 1.0})), "3 cells", "1 without", "1 above", "1 below")
    assert agreement(summary({"one": 1.0}, published={})) == ""


@pytest.mark.parametrize(("protocol", "measures"), [("gca", ("test",)), ("clustering", ("nmi", "ari"))])
def test_runs_below_the_untrained_encoder_are_counted(protocol: str, measures: tuple[str, ...]) -> None:
    rows = (ExperimentRow("none", "grace", baseline="untrained encoder"), *BOTH)
    made = summary({"one": 1.0, "two": 1.0}, rows=rows, protocol=protocol, measures=measures, published={})
    floor = {("none", name, measure): cell(60) for name in ("one", "two") for measure in measures}
    made = Summary(made.experiment, {**made.cells, **floor})
    assert failed_runs(made) == ""
    fallen = {
        ("Base+", "two", measure): replace(cell(81), test={**made.cell("Base+", "two", measure).test, 3: 25.0})
        for measure in measures
    }
    assert told(failed_runs(Summary(made.experiment, {**made.cells, **fallen})), "1 of 4 runs", "Base+", "two")
    if len(measures) > 1:
        first = dict(list(fallen.items())[:1])
        assert failed_runs(Summary(made.experiment, {**made.cells, **first})) == "", "in every measure"
    assert failed_runs(summary({"one": -60.0})) == ""


def test_free_rows_above_the_method_are_named() -> None:
    rows = (ExperimentRow("free", baseline="propagated features"), *BOTH)
    assert free_rows(summary({"one": 1.0, "two": 1.0}, rows=rows)) == ""
    said = free_rows(summary({"one": 1.0, "two": -1.0}, rows=rows))
    assert told(said, "Propagated features", "above", "Base+", "two") and "one" not in said
    assert free_rows(summary({"one": -1.0})) == ""


def test_the_best_free_row_above_the_method_is_named() -> None:
    """It stands for all free rows as soon as it has results."""
    rows = (ExperimentRow("free", baseline="propagated features"), ExperimentRow("best", baseline="best free"), *BOTH)
    made = summary({"one": 1.0, "two": -1.0}, rows=rows)
    said = free_rows(made)
    assert told(said, "Training-free", "validation", "above", "Base+", "two") and "Propagated" not in said
    without = {key: Cell({}, {}, 4) if key[0] == "best" else one for key, one in made.cells.items()}
    assert free_rows(Summary(made.experiment, without)).startswith("Propagated features")


def test_other_rows_below_the_base_are_named() -> None:
    part = ExperimentRow("Part", "grace+(p)")
    rows = (ExperimentRow("raw features", baseline="raw features"), *BOTH, part)

    def with_part(level: float, **changes: Any) -> Summary:
        made = summary({"one": 1.0, "two": -1.0}, rows=rows, **changes)
        return Summary(
            made.experiment, {**made.cells, **{key: cell(level) for key in made.cells if key[:2] == ("Part", "two")}}
        )

    assert others_below(with_part(80.0)) == others_below(with_part(81.0)) == ""
    assert told(others_below(with_part(78.0)), BELOW[1:], "Base", "Part", "two (−2.00)")
    figure = with_part(78.0, measures=("2 %", "4 %"), protocol="grace", published={}, axis="training nodes")
    assert told(others_below(figure), BELOW[1:], "Base", "Part", "2 of 4 points", "two at 2 % (−2.00)", "two at 4 % (−2.00)")


def test_cells_of_unknown_datasets_are_missing_not_absent() -> None:
    found = cell_of(summary({"one": 1.0}), "Base+", "two", "test")
    assert (found.count, found.wanted, found.published) == (0, 4, (70.0, 1.0))


def test_markdown_tables() -> None:
    made = summary({"one": 1.0})
    text = tables_as_markdown([made])
    base, plus = (made.cell(row, "one", "test") for row in ("Base", "Base+"))
    difference = plus.against_published(4)
    assert difference is not None
    assert "## Base and Base+" in text
    assert verdict(made) in text
    assert f"| Base (base) | {spread(base.mean, base.std)}<br><sub>paper 80.00 ± 1.00 " in text
    expected = f"(+1.00▲)<br><sub>paper 99.00 ± 0.50 ({signed(difference.points)}▼)</sub> | *missing*, n = 0 of 4<br>"
    assert f"| Base+ | {spread(plus.mean, plus.std)} {expected}" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in table} == {2}


def test_markdown_of_a_figure_is_a_table_for_each_dataset() -> None:
    made = summary({"one": 1.0}, protocol="few-labels", measures=("1", "3"), axis="labels of a class", published={})
    text = tables_as_markdown([made])
    assert "**one**, by labels of a class\n\n|  | 1 | 3 |\n" in text
    assert "**two**, by labels of a class" in text


def test_markdown_escapes() -> None:
    rows = (ExperimentRow("a|b <i> *x*", "grace"), ExperimentRow("Base", "grace"))
    assert r"a\|b \<i\> \*x\*" in tables_as_markdown([summary({"one": 1.0}, rows=rows)])
