"""Which rows of a leaderboard are better, and how sure that is: ranks over graphs, tests on the seeds that two rows share."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from graphkin.evaluation.comparison import SIGNIFICANT, Difference
from graphkin.experiments.board import Board

FEWEST_SEEDS = 3
"""of a row that can be the best on a graph"""


class Ranking(NamedTuple):
    """Mean ranks over graphs, 1 being best. All of its rows have results on all of its graphs."""

    ranks: Mapping[str, float]
    datasets: tuple[str, ...]
    critical: float
    """Two mean ranks that differ by less may differ by chance (Nemenyi's test over graphs, 5 %)."""


class Duel(NamedTuple):
    """On how many graphs a row is significantly above another, not significantly different, and significantly below."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    untested: int = 0
    """both have results, but share fewer than three seeds"""


def ranking(board: Board, measure: str) -> Ranking | None:
    """Of the rows with results on half of the graphs or more, on the graphs where they all have some; None without two of each.

    Rows with the same mean share their rank.
    """
    known = {dataset: board.present(dataset, measure) for dataset in board.datasets}
    graphs = [dataset for dataset, cells in known.items() if cells]
    rows = [row for row in board.rows if 2 * sum(row in known[dataset] for dataset in graphs) >= len(graphs)]
    shared = tuple(dataset for dataset in graphs if all(row in known[dataset] for row in rows))
    if len(rows) < 2 or len(shared) < 2:
        return None
    places = np.mean([stats.rankdata([-known[dataset][row].mean for row in rows]) for dataset in shared], axis=0)
    quantile = float(stats.studentized_range.ppf(1 - SIGNIFICANT, len(rows), np.inf)) / math.sqrt(2)
    critical = quantile * math.sqrt(len(rows) * (len(rows) + 1) / (6 * len(shared)))
    return Ranking(dict(zip(rows, places.tolist(), strict=True)), shared, critical)


@functools.lru_cache(maxsize=256)
def compared(board: Board, dataset: str, measure: str) -> dict[tuple[str, str], Difference]:
    """Every two rows on a graph: paired t-tests on the seeds that both have, corrected for the number of pairs (Holm)."""
    found = {}
    for (one, cell), (other, base) in itertools.combinations(board.present(dataset, measure).items(), 2):
        difference = cell.paired_with(base)
        if difference is not None:
            found[one, other] = difference
    corrected = holm({pair: difference.p_value for pair, difference in found.items()})
    both = {}
    for (one, other), difference in found.items():
        p_value = corrected[one, other]
        both[one, other] = Difference(difference.points, p_value)
        both[other, one] = Difference(-difference.points, p_value)
    return both


def holm(p_values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Holm's step-down correction; pairs that were not tested (NaN) do not count."""
    tested = sorted((pair for pair, p in p_values.items() if not math.isnan(p)), key=lambda pair: p_values[pair])
    found = dict(p_values)
    largest = 0.0
    for place, pair in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - place) * p_values[pair]))
        found[pair] = largest
    return found


def duels(board: Board, measure: str) -> dict[tuple[str, str], Duel]:
    """Over the graphs on which both rows have results."""
    found: dict[tuple[str, str], Duel] = {}
    for dataset in board.datasets:
        for pair, difference in compared(board, dataset, measure).items():
            duel = found.get(pair, Duel())
            found[pair] = duel._replace(**{(kind := _kind(difference)): getattr(duel, kind) + 1})
    return found


def _kind(difference: Difference) -> str:
    if math.isnan(difference.p_value):
        return "ties" if difference.points == 0 else "untested"
    if not difference.significant:
        return "ties"
    return "wins" if difference.points > 0 else "losses"


def best_on(board: Board, dataset: str, measure: str) -> list[str]:
    """The row with the highest mean, then those that are not significantly below it, from the highest mean.

    A row with fewer than three seeds, which no test can compare, comes after those with more.
    """
    cells = board.present(dataset, measure)
    ordered = sorted(cells, key=lambda row: (cells[row].count < FEWEST_SEEDS, -cells[row].mean))
    if not ordered:
        return []
    found = compared(board, dataset, measure)
    first, *others = ordered
    level = [row for row in others if (one := found.get((first, row))) is None or _kind(one) != "wins"]
    return [first, *level]
