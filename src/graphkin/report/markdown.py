"""The tables of experiments as GitHub Markdown."""

from __future__ import annotations

import re

from graphkin.evaluation.comparison import Difference
from graphkin.experiments.summary import Cell, Summary
from graphkin.report.reading import (
    MISSING,
    accuracy_only,
    against_published,
    cell_of,
    counted,
    gain_of,
    mark,
    meanings,
    sentences_of,
    signed,
    spread,
)

HOW_TO_READ = (
    "{what} in percent: mean ± sample standard deviation over seeds. In parentheses: the gain over the base row, paired by "
    "seed. *paper*: the published value, with our difference to it in parentheses. ▲ is significantly above and ▼ "
    "significantly below (p < 0.05), by a paired t-test for gains and Welch's t-test for differences to the paper. The "
    "p-values are not corrected for the number of cells."
)


def tables_as_markdown(summaries: list[Summary]) -> str:
    """A section for each experiment: rows by datasets, or for a figure rows by its points, dataset after dataset."""
    what = "Test accuracy" if all(accuracy_only(summary.experiment) for summary in summaries) else "Measures"
    return "\n\n".join([HOW_TO_READ.format(what=what), *map(_section, summaries)]) + "\n"


def _section(summary: Summary) -> str:
    experiment = summary.experiment
    protocol, seeds = f"{experiment.protocol}{meanings(experiment)}", counted(experiment.seeds, "seed")
    about = f"Protocol {protocol}, {seeds} unless a cell says otherwise"
    source = f"; compared with {experiment.source}." if experiment.source else "."
    parts = [f"## {escaped(experiment.title)}", escaped(about + source), *map(escaped, sentences_of(summary))]
    if experiment.note:
        parts.insert(2, escaped(experiment.note))
    if len(experiment.measures) == 1:
        (measure,) = experiment.measures
        parts.append(_table(summary, {experiment.heading(dataset): (dataset, measure) for dataset in experiment.datasets}))
    else:
        for dataset in experiment.datasets:
            title = f"**{escaped(experiment.heading(dataset))}**" + (
                f", by {escaped(experiment.axis)}" if experiment.axis else ""
            )
            parts += [title, _table(summary, {measure: (dataset, measure) for measure in experiment.measures})]
    return "\n\n".join(parts)


def _table(summary: Summary, columns: dict[str, tuple[str, str]]) -> str:
    """Columns by their heading, each with its dataset and measure."""
    lines = [["", *map(escaped, columns)], ["---", *("---" for _ in columns)]]
    for row in summary.experiment.rows:
        name = escaped(row.name) + (" (base)" if row.name == summary.experiment.base else "")
        lines.append([name, *(_cell(summary, row.name, *place) for place in columns.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(summary: Summary, row: str, dataset: str, measure: str) -> str:
    cell = cell_of(summary, row, dataset, measure)
    ours = f"{spread(cell.mean, cell.std)}{_aside(gain_of(summary, row, dataset, measure))}" if cell.count else f"*{MISSING}*"
    lines = [ours + _count(cell, summary.experiment.seeds)]
    if cell.published is not None:
        lines.append(f"<sub>paper {spread(*cell.published)}{_aside(against_published(summary, cell))}</sub>")
    return "<br>".join(lines)


def _aside(difference: Difference | None) -> str:
    return "" if difference is None else f" ({signed(difference.points)}{mark(difference)})"


def _count(cell: Cell, usual: int) -> str:
    if cell.count < cell.wanted:
        return f", n = {cell.count} of {cell.wanted}"
    return "" if cell.count == usual else f", n = {cell.count}"


def escaped(text: str) -> str:
    """Text whose characters mean nothing to Markdown."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
