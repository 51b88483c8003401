"""A leaderboard as plain data for the page and the document: measures, costs, pairs, and which method for which graph."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphkin.evaluation.free import BEST_FREE, named
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.experiments.board import PROTOCOL, Board
from graphkin.experiments.definition import Experiment, ExperimentRow
from graphkin.experiments.ranking import Duel, Ranking, best_on, compared, duels, ranking
from graphkin.experiments.summary import Cell, Cost
from graphkin.report.graph_facts import graph_facts, graph_kinds
from graphkin.report.reading import counted, enumerated, mark, signed, spread

NAMES = {"accuracy": "Test accuracy", "nmi": "NMI", "ari": "ARI", "sim@5": "Sim@5"}
WITHOUT_TRAINING = "no training"


@dataclass(frozen=True)
class BoardCell:
    text: str
    """mean and deviation, or why there is none"""
    key: float | None = None
    """the mean"""
    best: bool = False
    """highest, or not significantly below the highest"""
    detail: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoardRow:
    name: str
    trained: bool
    settings: str
    cells: list[BoardCell]
    rank: float | None = None


@dataclass(frozen=True)
class BoardTable:
    measure: str
    caption: str
    rows: list[BoardRow]
    ranks: str
    """what the ranks are of, in a sentence"""


@dataclass(frozen=True)
class Advice:
    """Which method for one graph, by the first measure."""

    graph: str
    facts: Mapping[str, float]
    best: BoardCell
    rows: list[str]
    """the best, and those that are not significantly below it"""
    alone: bool
    """nothing else was run"""
    free: BoardCell
    gain: str
    """of the best over the best row without training"""
    cost: str


@dataclass(frozen=True)
class ShownBoard:
    datasets: tuple[str, ...]
    advice: list[Advice]
    tables: list[BoardTable]
    pairs: list[tuple[str, list[str]]]
    """wins, ties and losses of each row against each other, by the first measure"""
    costs: list[BoardRow]
    kinds: dict[str, list[int]] = field(default_factory=dict)
    """columns of the graphs of one kind, by its name"""
    cut_to: int | None = None


@functools.lru_cache(maxsize=1)
def shown_board(board: Board) -> ShownBoard:
    return ShownBoard(
        tuple(map(Experiment.heading, board.datasets)),
        [_advice(board, dataset) for dataset in board.datasets],
        [_table(board, measure) for measure in board.measures],
        _pairs(board),
        [_costs(board, row) for row in board.rows.values() if row.trained],
        graph_kinds(board.datasets),
        board.cut_to,
    )


def settings_words(row: ExperimentRow, datasets: tuple[str, ...]) -> str:
    """Where the settings of a row come from: one for all graphs, those of single graphs, or a search on validation nodes."""
    if row.method is None:
        return "chosen on validation nodes, split by split" if row.baseline == BEST_FREE else "none"
    tuned = {dataset: trials for dataset in datasets if (trials := row.trials_on(dataset)) is not None}
    own = [dataset for dataset in datasets if dataset not in tuned and (row.has_preset(dataset) or dataset in row.on)]
    parts = []
    if tuned:
        counts = enumerated(dict.fromkeys(f"{count}" for count in tuned.values()))
        parts.append(f"tuned on validation with {counts} trials on each of {_graphs(tuned, datasets)}")
    if own:
        parts.append(f"a setting for each of {_graphs(own, datasets)}")
    return "; ".join([*parts, "one for all others"] if parts else ["one for all graphs"])


def _graphs(some: Any, datasets: tuple[str, ...]) -> str:
    return enumerated(map(Experiment.heading, some)) if len(some) <= 4 else f"{len(some)} of {len(datasets)} graphs"


def _table(board: Board, measure: str) -> BoardTable:
    found = ranking(board, measure)
    best = {dataset: best_on(board, dataset, measure) for dataset in board.datasets}
    rows = [
        BoardRow(
            row.name,
            row.trained,
            settings_words(row, board.datasets),
            [_cell(board, row.name, dataset, measure, best[dataset]) for dataset in board.datasets],
            None if found is None else found.ranks.get(row.name),
        )
        for row in board.rows.values()
    ]
    quantity = PROTOCOLS[PROTOCOL].measures[measure]
    caption = NAMES[measure] if measure == "accuracy" else f"{NAMES[measure]} ({quantity})"
    return BoardTable(measure, f"{caption}, percent", rows, _ranks(found))


def _ranks(found: Ranking | None) -> str:
    if found is None:
        return "No mean ranks yet: they need two rows that have results on half of the graphs, two of them shared."
    graphs = enumerated(map(Experiment.heading, found.datasets))
    return (
        f"Mean ranks are over {counted(len(found.datasets), 'graph')} ({graphs}), among the {len(found.ranks)} rows with "
        f"results on all of them. A difference below {found.critical:.2f} may be chance (Nemenyi's test, 5 %)."
    )


def _cell(board: Board, row: str, dataset: str, measure: str, best: list[str]) -> BoardCell:
    cell = board.cell(row, dataset, measure)
    if not cell.count:
        return BoardCell(board.missing(row, dataset, measure))
    detail = [f"{cell.count} of {counted(cell.wanted, 'seed')}"]
    trials = board.rows[row].trials_on(dataset)
    detail += [] if trials is None else [f"settings chosen on validation nodes among {trials} trials"]
    detail += [f"chosen: {named(list(cell.chosen.values()))}"] if cell.chosen else []
    cost = board.cost(row, dataset)
    detail += [] if cost is None else [cost_words(*cost)]
    return BoardCell(_with_seeds(cell), cell.mean, row in best and len(board.present(dataset, measure)) > 1, tuple(detail))


def _with_seeds(cell: Cell) -> str:
    return spread(cell.mean, cell.std) + ("" if cell.count >= cell.wanted else f" (n = {cell.count})")


def cost_words(machine: str, cost: Cost) -> str:
    memory = "" if math.isnan(cost.peak_bytes) else f", {cost.peak_bytes / 2**30:.1f} GiB"
    return f"{_seconds(cost.seconds)}{memory} ({machine})"


def _seconds(value: float) -> str:
    return f"{value / 60:.0f} min" if value >= 600 else f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _costs(board: Board, row: ExperimentRow) -> BoardRow:
    cells = []
    for dataset in board.datasets:
        cost = board.cost(row.name, dataset)
        missing = board.missing(row.name, dataset, board.measures[0])
        cells.append(BoardCell(missing) if cost is None else BoardCell(cost_words(*cost), cost[1].seconds))
    return BoardRow(row.name, True, "", cells)


def _pairs(board: Board) -> list[tuple[str, list[str]]]:
    measure = board.measures[0]
    found = duels(board, measure)
    rows = [row for row in board.rows if any(row in pair for pair in found)]
    lines = []
    for row in rows:
        against = [found.get((row, other), Duel()) for other in rows]
        lines.append((row, [f"{duel.wins}–{duel.ties}–{duel.losses}" if any(duel[:3]) else "" for duel in against]))
    return lines


def _advice(board: Board, dataset: str) -> Advice:
    measure = board.measures[0]
    rows = best_on(board, dataset, measure)
    free = [row for row, cell in board.present(dataset, measure).items() if not board.rows[row].trained]
    bar = max(free, key=lambda row: (row == BEST_FREE, board.cell(row, dataset, measure).mean), default=None)
    gain = None if bar is None or not rows else compared(board, dataset, measure).get((rows[0], bar))
    cost = board.cost(rows[0], dataset) if rows else None
    trained = bool(rows) and board.rows[rows[0]].trained
    return Advice(
        Experiment.heading(dataset),
        graph_facts().get(dataset, {}),
        _cell(board, rows[0], dataset, measure, rows) if rows else BoardCell("not run"),
        rows,
        len(board.present(dataset, measure)) == 1,
        BoardCell("not run") if bar is None else _cell(board, bar, dataset, measure, []),
        "" if gain is None else signed(gain.points) + mark(gain),
        (WITHOUT_TRAINING if not trained else "not measured" if cost is None else cost_words(*cost)) if rows else "",
    )
