"""A table of all experiments at a glance: does a method beat its base, and does it beat features without training?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from graphkin.evaluation.comparison import Difference, paired
from graphkin.experiments.definition import Experiment
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.reading import cell_of, enhanced_row, free_row, p_text, signed

ABOVE, CHANCE, BELOW, UNTESTED = "▲", "≈", "▼", "?"
SPOKEN = {ABOVE: "significantly above", CHANCE: "could be chance", BELOW: "significantly below", UNTESTED: "not tested"}
KINDS = {ABOVE: "above", CHANCE: "level", BELOW: "below", UNTESTED: "level"}


@dataclass(frozen=True)
class Glimpse:
    """One comparison on one dataset: its marks with text, and every measure in words. Without results, both are empty."""

    marks: tuple[tuple[str, str], ...] = ()
    """a mark, and what stands beside it"""
    detail: tuple[str, ...] = ()

    @property
    def spoken(self) -> list[tuple[str, str, str, str]]:
        """Class, mark, text, and the mark in words."""
        return [(KINDS[mark], mark, text, SPOKEN[mark]) for mark, text in self.marks]


@dataclass(frozen=True)
class Comparison:
    row: str
    other: str
    cells: tuple[Glimpse | None, ...]
    """None where the experiment lacks the dataset"""


@dataclass(frozen=True)
class Glance:
    datasets: tuple[str, ...]
    experiments: tuple[tuple[Experiment, tuple[Comparison, ...]], ...]


def glance(summaries: list[Summary]) -> Glance:
    """Experiments that compare nothing, or whose training was cut short, are left out."""
    pairs = [(one, list(comparisons(one))) for one in summaries if one.cut_to is None]
    shown = [(summary, found) for summary, found in pairs if found]
    datasets = tuple(dict.fromkeys(dataset for summary, _ in shown for dataset in summary.experiment.datasets))
    experiments = [
        (summary.experiment, tuple(Comparison(*pair, _glimpses(summary, *pair, datasets)) for pair in found))
        for summary, found in shown
    ]
    return Glance(tuple(map(Experiment.heading, datasets)), tuple(experiments))


def comparisons(summary: Summary) -> Iterator[tuple[str, str]]:
    """The "+" row with its base and with the best free row; or, where the base needs no training, all methods with it."""
    experiment = summary.experiment
    enhanced = enhanced_row(experiment)
    rows = {row.name: row for row in experiment.rows}
    if enhanced is not None and experiment.base is not None:
        yield enhanced, experiment.base
        free = free_row(summary)
        if free is not None and free != experiment.base:
            yield enhanced, free
    elif experiment.base is not None and rows[experiment.base].baseline is not None:
        yield from ((name, experiment.base) for name, row in rows.items() if row.method and not row.baseline and not row.ideal)


def _glimpses(summary: Summary, row: str, other: str, datasets: tuple[str, ...]) -> tuple[Glimpse | None, ...]:
    known = summary.experiment.datasets
    return tuple(_glimpse(summary, row, other, one) if one in known else None for one in datasets)


def _glimpse(summary: Summary, row: str, other: str, dataset: str) -> Glimpse:
    found: dict[str, Difference] = {}
    for measure in summary.experiment.measures:
        gain = _gain(*(cell_of(summary, name, dataset, measure) for name in (row, other)))
        if gain is not None:
            found[measure] = gain
    if not found:
        return Glimpse()
    if len(summary.experiment.measures) == 1:
        (gain,) = found.values()
        return Glimpse(((_mark(gain), signed(gain.points)),), (p_text(gain.p_value),))
    counts = Counter(map(_mark, found.values()))
    marks = tuple((mark, str(counts[mark])) for mark in SPOKEN if counts[mark])
    return Glimpse(marks, tuple(f"{name}: {signed(gain.points)}, {p_text(gain.p_value)}" for name, gain in found.items()))


def _gain(cell: Cell, other: Cell) -> Difference | None:
    """Paired by seed; a row of which one seed is wanted is the same for all."""
    if other.wanted == other.count == 1:
        (value,) = other.test.values()
        return paired(cell.test, dict.fromkeys(cell.test, value))
    return cell.paired_with(other)


def _mark(gain: Difference) -> str:
    if math.isnan(gain.p_value):
        return CHANCE if gain.points == 0 else UNTESTED
    if not gain.significant:
        return CHANCE
    return ABOVE if gain.points > 0 else BELOW
