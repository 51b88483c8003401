"""A summary in words: numbers as text, marks of significance, and plain sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from graphkin.evaluation.comparison import Difference
from graphkin.evaluation.free import BEST_FREE, named
from graphkin.experiments.definition import Experiment
from graphkin.experiments.summary import Cell, Summary

MISSING = "missing"
UNKNOWN = "p unknown"
VERDICTS = (
    "significantly above {base}",
    "above {base}, but not significantly,",
    "above {base}, but with too few seeds for a test,",
    "equal to {base}",
    "below {base}, but with too few seeds for a test,",
    "below {base}, but not significantly,",
    "significantly below {base}",
    "not yet comparable with {base}",
)
CHOSEN_FREE = {
    BEST_FREE: "Training-free baselines (the best by validation) are",
    "propagated features": "Propagated features, which need no training, are",
}
NAMED = 3
"""Up to this many points of a figure are named; if there are more, they are only counted."""


def cell_of(summary: Summary, row: str, dataset: str, measure: str) -> Cell:
    """A cell; an empty one where the summary lacks the dataset, so that nothing wanted is left out."""
    found = summary.cells.get((row, dataset, measure))
    if found is not None:
        return found
    experiment = summary.experiment
    wanted = next(one for one in experiment.rows if one.name == row)
    return Cell({}, {}, len(experiment.seeds_of(wanted, dataset)), experiment.published_for(wanted, dataset, measure))


def all_cells(summary: Summary) -> Iterator[Cell]:
    experiment = summary.experiment
    names = [row.name for row in experiment.rows]
    for row, dataset, measure in itertools.product(names, experiment.datasets, experiment.measures):
        yield cell_of(summary, row, dataset, measure)


def gain_of(summary: Summary, row: str, dataset: str, measure: str) -> Difference | None:
    base = summary.experiment.base
    if base is None or row == base:
        return None
    return cell_of(summary, row, dataset, measure).paired_with(cell_of(summary, base, dataset, measure))


def against_published(summary: Summary, cell: Cell) -> Difference | None:
    return None if summary.cut_to is not None else cell.against_published(summary.experiment.in_paper)


def progress_of(summary: Summary) -> tuple[int, int]:
    """Finished and wanted results, over all cells."""
    cells = list(all_cells(summary))
    return sum(cell.count for cell in cells), sum(cell.wanted for cell in cells)


def spread(mean: float, std: float) -> str:
    return f"{mean:.2f}" if math.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def signed(points: float) -> str:
    """With a sign, the true minus, and no "−0.00"."""
    shown = f"{abs(points):.2f}"
    if float(shown) == 0:
        return shown
    return f"{'−' if points < 0 else '+'}{shown}"


def p_text(p_value: float) -> str:
    if math.isnan(p_value):
        return UNKNOWN
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def mark(difference: Difference) -> str:
    """▲ significantly above, ▼ significantly below, nothing where chance can explain the difference."""
    if not difference.significant:
        return ""
    return "▲" if difference.points > 0 else "▼"


def place(experiment: Experiment, measure: str) -> str:
    """Where on its axis a measure is: "2 % training nodes", "3 labels per class"; nothing without an axis."""
    return "" if experiment.axis is None else f"{measure} {experiment.axis}"


def enhanced_row(experiment: Experiment) -> str | None:
    """The row that stands for the paper's method: the base's name with a "+", or the only other method there is."""
    if experiment.base is None:
        return None
    methods = [row for row in experiment.rows if row.method and not row.baseline and not row.ideal]
    others = [row.name for row in methods if row.name != experiment.base]
    if f"{experiment.base}+" in others:
        return f"{experiment.base}+"
    return others[0] if len(others) == 1 else None


def verdict(summary: Summary) -> str:
    """Where "+" is above its base, in a sentence; empty where the experiment compares no such rows."""
    experiment = summary.experiment
    row = enhanced_row(experiment)
    if row is None:
        return ""
    found: dict[str, list[str]] = {}
    for dataset, measure in itertools.product(experiment.datasets, experiment.measures):
        gain = gain_of(summary, row, dataset, measure)
        where = _where(experiment, dataset, measure)
        found.setdefault(_verdict_on(gain), []).append(where if gain is None else f"{where} ({signed(gain.points)})")
    total = sum(map(len, found.values()))
    base, parts = experiment.base, []
    for kind in (kind for kind in VERDICTS if kind in found):
        parts.append(f"{kind.format(base=base)} {_places(experiment, found[kind], total)}")
        base = "it"
    return f"{row} is {'; '.join(parts)}."


def agreement(summary: Summary) -> str:
    """How many cells agree with the paper's, in a sentence; empty where nothing is published."""
    found = [difference for cell in all_cells(summary) if (difference := against_published(summary, cell)) is not None]
    marks = [mark(difference) for difference in found if not math.isnan(difference.p_value)]
    if not marks:
        return ""
    return (
        f"Compared with the paper's values ({counted(len(marks), 'cell')}): {marks.count('')} without a significant "
        f"difference, {marks.count('▲')} above, {marks.count('▼')} below."
    )


def failed_runs(summary: Summary) -> str:
    """Where trained runs ended below the untrained encoder of their seed, in a sentence; empty where none did."""
    experiment = summary.experiment
    untrained = next((row.name for row in experiment.rows if row.baseline == "untrained encoder"), None)
    if untrained is None:
        return ""
    found = []
    trained = [row.name for row in experiment.rows if not row.baseline]
    for dataset, row in itertools.product(experiment.datasets, trained):
        pairs = [
            (cell_of(summary, row, dataset, one).test, cell_of(summary, untrained, dataset, one).test)
            for one in experiment.measures
        ]
        seeds = set.intersection(*(set(ours) & set(floor) for ours, floor in pairs))
        below = [seed for seed in seeds if all(ours[seed] < floor[seed] for ours, floor in pairs)]
        if below:
            found.append(f"{len(below)} of {counted(len(seeds), 'run')} of {row} on {dataset}")
    if not found:
        return ""
    if accuracy_only(experiment):
        return f"Training failed (it ended below the untrained encoder) in {enumerated(found)}."
    return f"{enumerated(found)} ended below the untrained encoder in every measure."


def free_row(summary: Summary) -> str | None:
    """The best free row by validation where it has results; otherwise that of propagated features."""
    for baseline in CHOSEN_FREE:
        for row in summary.experiment.rows:
            if row.baseline == baseline and any(cell.count for key, cell in summary.cells.items() if key[0] == row.name):
                return row.name
    return None


def free_rows(summary: Summary) -> str:
    """Where rows that cost no training have a higher mean than "+", in a sentence; empty where there are none."""
    experiment = summary.experiment
    row, free = enhanced_row(experiment), free_row(summary)
    if row is None or free is None:
        return ""
    known, above = 0, []
    for dataset, measure in itertools.product(experiment.datasets, experiment.measures):
        ours, theirs = (cell_of(summary, name, dataset, measure) for name in (row, free))
        if ours.count and theirs.count:
            known += 1
            above += [_where(experiment, dataset, measure)] if theirs.mean > ours.mean else []
    words = CHOSEN_FREE[next(str(one.baseline) for one in experiment.rows if one.name == free)]
    return f"{words} above {row} {_places(experiment, above, known)}." if above else ""


def choices(summary: Summary) -> str:
    """Which rows validation chose, by dataset, in a sentence; empty where nothing was chosen."""
    experiment = summary.experiment
    found: dict[str, list[str]] = {}
    for (_, dataset, _), cell in summary.cells.items():
        if cell.chosen:
            found.setdefault(dataset, []).extend(cell.chosen.values())
    if not found:
        return ""
    rows = enumerated(dict.fromkeys(row.name for row in experiment.rows if row.baseline == BEST_FREE))
    return f"Validation chose as {rows}: {'; '.join(f'{named(names)} on {one}' for one, names in found.items())}."


def others_below(summary: Summary) -> str:
    """Which trained rows but "+" are significantly below the base, and where, in a sentence; empty where none is."""
    experiment = summary.experiment
    known = (experiment.base, enhanced_row(experiment))
    found = []
    for row in (row.name for row in experiment.rows if not row.baseline and row.name not in known):
        gains = {
            _where(experiment, dataset, measure): gain
            for dataset, measure in itertools.product(experiment.datasets, experiment.measures)
            if (gain := gain_of(summary, row, dataset, measure)) is not None
        }
        below = [f"{where} ({signed(gain.points)})" for where, gain in gains.items() if mark(gain) == "▼"]
        if below:
            found.append(f"{row}, {_places(experiment, below, len(gains))}")
    return f"Significantly below {experiment.base}: {'; '.join(found)}." if found else ""


def sentences_of(summary: Summary) -> list[str]:
    if summary.cut_to is not None:
        return [f"Training was cut to {counted(summary.cut_to, 'epoch')}, so these numbers are not results."]
    readings = (verdict, others_below, free_rows, choices, agreement, failed_runs)
    return [text for reading in readings if (text := reading(summary))]


def accuracy_only(experiment: Experiment) -> bool:
    return {experiment.quantity(measure) for measure in experiment.measures} == {"test accuracy"}


def meanings(experiment: Experiment) -> str:
    """What its measures are, in parentheses, unless they are all accuracies."""
    if accuracy_only(experiment):
        return ""
    return f" ({', '.join(f'{measure}: {experiment.quantity(measure)}' for measure in experiment.measures)})"


def enumerated(items: Iterable[str]) -> str:
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _verdict_on(gain: Difference | None) -> str:
    above, slightly_above, perhaps_above, equal, perhaps_below, slightly_below, below, unknown = VERDICTS
    if gain is None:
        return unknown
    if gain.points == 0:
        return equal
    sure, not_sure, untested = (
        (above, slightly_above, perhaps_above) if gain.points > 0 else (below, slightly_below, perhaps_below)
    )
    if math.isnan(gain.p_value):
        return untested
    return sure if gain.significant else not_sure


def _where(experiment: Experiment, dataset: str, measure: str) -> str:
    if len(experiment.measures) == 1:
        return dataset
    return f"{measure} on {dataset}" if experiment.axis is None else f"{dataset} at {measure}"


def _places(experiment: Experiment, places: list[str], total: int) -> str:
    if len(experiment.measures) == 1:
        return f"on {enumerated(places)}"
    at, what = ("in", "cell") if experiment.axis is None else ("at", "point")
    count = f"{at} {len(places)} of {counted(total, what)}"
    return count if len(places) > NAMED else f"{count}: {enumerated(places)}"


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
