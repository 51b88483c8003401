from __future__ import annotations

import math

import pytest

from graphkin.experiments import ExperimentRow
from graphkin.experiments.summary import Summary
from graphkin.report.charts import Chart, Scale, Series, scale_of
from graphkin.report.figures import Figure
from graphkin.report.fit_plots import fit_loss_figure
from graphkin.report.plots import loss_figure, ratio_figure
from tests.reports import summary

FEW = {"protocol": "few-labels", "measures": ("1", "3"), "axis": "labels"}


def test_lines_and_bands_of_a_figure() -> None:
    made = summary({"one": 1.0}, **FEW, published={"3": {"Base": {"one": (80, 1)}}})
    found = ratio_figure(made)
    assert [entry.name for entry in found.legend] == ["Base", "Base+"], "raw features are far away"
    base, plus = found.panels[0].series
    cell = made.cell("Base+", "one", "1")
    assert [x for x, _ in plus.line] == [1.0, 3.0]
    assert plus.line[0] == pytest.approx((1.0, cell.mean))
    assert plus.band[0] == pytest.approx((1.0, cell.mean - cell.std, cell.mean + cell.std))
    assert [(mark.x, mark.y, mark.spread) for mark in base.marks if mark.kind == "published"] == [(3.0, 80.0, 1.0)]
    assert found.panels[1].empty, "a panel without runs says so"


def test_bands_can_be_told_apart_without_colours() -> None:
    """By the angle of their hatching, their edges and their marks; rows beside the base and "+" have none."""
    rows = tuple(ExperimentRow(name, "grace") for name in ("Base", "Base+", "Part", "Other"))
    found = ratio_figure(summary({"one": 1.0}, **FEW, rows=rows, published={}))
    banded = [entry for entry in found.legend if entry.hatch is not None]
    assert [entry.name for entry in banded] == ["Base", "Base+"]
    for looks in ([entry.hatch for entry in banded], [entry.dash for entry in found.legend], [e.symbol for e in found.legend]):
        assert len(set(looks)) == len(looks)
    assert [bool(one.band) for one in found.panels[0].series] == [True, True, False, False]


def test_loss_curves() -> None:
    made = summary({"one": 1.0})
    losses = loss_figure(made)
    assert losses is not None and [entry.name for entry in losses.legend] == ["Base", "Base+"]
    assert losses.panels[0].series[0].line == [(1.0, 3.0), (10.5, 2.0), (20.0, 1.5)]
    assert loss_figure(Summary(made.experiment, {})) is None
    (panel,) = fit_loss_figure([2.0, math.nan, 1.0]).panels
    assert panel.series[0].line == [(1, 2.0), (3, 1.0)]


def test_places_in_a_chart() -> None:
    chart = Chart("", Scale(0, 10, []), Scale(0, 1, []), [Series("a", "c0", line=[(0, 0), (10, 1)])], size=(152, 144))
    left, top, right, bottom = chart.box
    assert (
        chart.path([(0, 0), (5, 0.5), (10, 1)])
        == f"M{left} {bottom}L{(left + right) / 2:g} {(top + bottom) / 2:g}L{right} {top}"
    )
    around = chart.outline([(0, 0, 1), (10, 0, 1)])
    assert around == f"M{left} {top}L{right} {top}L{right} {bottom}L{left} {bottom}Z"


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([81.2, 82.4], ["81.0", "81.5", "82.0", "82.5"]),
        ([0.0, 4000.0], ["0", "1,000", "2,000", "3,000", "4,000"]),
        ([7.0], None),
    ],
)
def test_ticks_have_the_digits_of_their_step(values: list[float], ticks: list[str] | None) -> None:
    texts = [text for _, text in scale_of(values).ticks]
    assert len(set(texts)) == len(texts) > 2 and (ticks is None or texts == ticks)


def test_panels_stand_in_full_rows() -> None:
    assert [Figure("", "", [fit_loss_figure([1.0]).panels[0]] * count).columns for count in (1, 2, 3, 4, 6)] == [1, 2, 3, 2, 3]
