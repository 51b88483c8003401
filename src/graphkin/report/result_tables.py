"""Tables of the page as plain data: the text of a cell, and the numbers it is sorted by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from graphkin.evaluation.baselines import UNTRAINED
from graphkin.evaluation.comparison import Difference
from graphkin.evaluation.free import named
from graphkin.experiments.definition import ExperimentRow
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.reading import MISSING, UNKNOWN, against_published, cell_of, gain_of, mark, p_text, place, signed, spread

SORTED_BY = {"ours": "our mean", "published": "published mean", "difference": "difference", "gain": "gain over base"}


@dataclass(frozen=True)
class Shown:
    """A difference as text, with its mark, and the mark in words for a screen reader."""

    points: str
    mark: str
    p: str

    @property
    def spoken(self) -> str:
        if self.p == UNKNOWN:
            return "significance unknown"
        return {"▲": "significantly above", "▼": "significantly below"}.get(self.mark, "not significant")


@dataclass(frozen=True)
class TableCell:
    ours: str
    seeds: str
    complete: bool
    detail: str
    published: str | None
    difference: Shown | None
    gain: Shown | None
    keys: dict[str, str] = field(default_factory=dict)
    """numbers to sort by, of :data:`SORTED_BY`; missing ones are left out"""


@dataclass(frozen=True)
class ResultTable:
    key: str
    caption: str
    datasets: tuple[str, ...]
    rows: list[tuple[str, list[TableCell]]]
    base: str | None
    sorted_by: dict[str, str]


def result_tables(summary: Summary) -> list[ResultTable]:
    """One for each measure, rows by datasets; of the points of a figure the last, which has the most labels, first."""
    experiment = summary.experiment
    tables = []
    numbered = list(enumerate(experiment.measures))
    for number, measure in numbered if experiment.axis is None else reversed(numbered):
        rows = [
            (row.name, [_table_cell(summary, row.name, dataset, measure) for dataset in experiment.datasets])
            for row in experiment.rows
        ]
        present = {name for _, cells in rows for cell in cells for name in cell.keys}
        sorted_by = {name: words for name, words in SORTED_BY.items() if name in present}
        quantity = experiment.quantity(measure)
        caption = f"{quantity[:1].upper()}{quantity[1:]} in percent"
        caption += f" at {place(experiment, measure)}" if experiment.axis else ""
        tables.append(
            ResultTable(
                f"{experiment.name}-{number}",
                caption,
                tuple(map(experiment.heading, experiment.datasets)),
                rows,
                experiment.base,
                sorted_by,
            )
        )
    return tables


def settings_table(summary: Summary) -> tuple[dict[str, str], list[str], list[tuple[str, str, list[str]]]]:
    """Settings that all runs share; the names of the others; and their values by row and dataset."""
    experiment = summary.experiment
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in experiment.rows:
        for dataset in experiment.datasets:
            found[row.name, dataset] = _settings(summary, row, dataset)
    found = {where: settings for where, settings in found.items() if settings}
    names = list(dict.fromkeys(name for settings in found.values() for name in settings))
    shared = {}
    for name in names:
        values = {settings.get(name) for settings in found.values()}
        if len(values) == 1:
            shared[name] = str(values.pop())
    varying = [name for name in names if name not in shared]
    rows = [
        (row, dataset, [settings.get(name, "") for name in varying]) for (row, dataset), settings in found.items() if varying
    ]
    return shared, varying, rows


def score_rows(scores: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Name, accuracy and the number to sort by, of a run and of its baselines."""
    rows = {scores["of"]: scores, **scores["baselines"]}
    found = []
    for name, row in rows.items():
        several = len(row["accuracy"]) > 1
        shown = f"{name}: {named(row['chosen'])}" if row.get("chosen") else name
        found.append((shown, spread(row["accuracy_mean"], row["accuracy_std"] if several else math.nan), row["accuracy_mean"]))
    return found


def shown_value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(shown_value, value)) if isinstance(value, list | tuple) else str(value)


def _table_cell(summary: Summary, row: str, dataset: str, measure: str) -> TableCell:
    cell = cell_of(summary, row, dataset, measure)
    difference, gain = against_published(summary, cell), gain_of(summary, row, dataset, measure)
    numbers = {
        "ours": cell.mean,
        "published": math.nan if cell.published is None else cell.published[0],
        "difference": math.nan if difference is None else difference.points,
        "gain": math.nan if gain is None else gain.points,
    }
    return TableCell(
        spread(cell.mean, cell.std) if cell.count else MISSING,
        _seeds(cell),
        cell.count >= cell.wanted,
        _detail(cell),
        None if cell.published is None else spread(*cell.published),
        _shown(difference),
        _shown(gain),
        {name: repr(number) for name, number in numbers.items() if not math.isnan(number)},
    )


def _seeds(cell: Cell) -> str:
    words = "seed" if cell.wanted == 1 else "seeds"
    return f"{cell.count} {words}" if cell.count >= cell.wanted else f"{cell.count} of {cell.wanted} {words}"


def _detail(cell: Cell) -> str:
    parts = [] if math.isnan(cell.val_mean) else [f"validation {cell.val_mean:.2f}"]
    if cell.chosen:
        parts.append(f"chosen: {named(list(cell.chosen.values()))}")
    if cell.seconds > 0:
        parts.append(f"{cell.seconds:.1f} s of training per run")
    return ", ".join(parts)


def _shown(difference: Difference | None) -> Shown | None:
    return None if difference is None else Shown(signed(difference.points), mark(difference), p_text(difference.p_value))


def _settings(summary: Summary, row: ExperimentRow, dataset: str) -> dict[str, str]:
    if row.baseline not in (None, UNTRAINED):
        return {}
    method = row.chosen(dataset)
    if method is None:
        return {}
    settings = method.settings()
    trained = cell_of(summary, row.name, dataset, summary.experiment.measures[-1]).epochs
    if row.baseline is not None:
        settings.pop("epochs", None)
    elif trained:
        settings["epochs"] = trained
    return {name: shown_value(value) for name, value in settings.items()}
