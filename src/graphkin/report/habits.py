"""Our accuracies beside published ones: by our protocol, and by the one of ours that evaluates as they did."""

from __future__ import annotations

from dataclasses import dataclass

from graphkin.evaluation.protocols import HABITS
from graphkin.experiments.board import NOT_RUN, Board
from graphkin.experiments.definition import Experiment
from graphkin.experiments.published import published
from graphkin.report.reading import counted, signed, spread

AS_OURS = "as ours"
HONEST = {"habit-refit": "accuracy", "habit-swapped": "accuracy", "habit-best-test": "gca"}
"""what each habit is compared with: the same probe without it"""


@dataclass(frozen=True)
class Beside:
    """A published number of one row on one graph."""

    row: str
    graph: str
    ours: str
    theirs: str
    """our accuracy by the protocol that evaluates as they did"""
    published: str
    source: str


def beside_published(board: Board) -> list[Beside]:
    """Every published number of a row of the board, on its graphs."""
    return [
        Beside(
            one.row,
            Experiment.heading(dataset),
            _shown(board, one.row, dataset, "accuracy"),
            AS_OURS if one.protocol is None else f"{_shown(board, one.row, dataset, one.protocol)} (`{one.protocol}`)",
            one.shown(dataset),
            f"[{one.mark}] {one.source}",
        )
        for one in published()
        if one.row in board.rows
        for dataset in one.values
        if dataset in board.datasets
    ]


def habit_gains(board: Board) -> list[tuple[str, list[str]]]:
    """What each habit adds to each trained row: the mean over graphs, and the smallest and largest of them."""
    return [(row.name, [_gains(board, row.name, habit) for habit in HABITS]) for row in board.rows.values() if row.trained]


def _shown(board: Board, row: str, dataset: str, measure: str) -> str:
    cell = board.cell(row, dataset, measure)
    return spread(cell.mean, cell.std) if cell.count else NOT_RUN


def _gains(board: Board, row: str, habit: str) -> str:
    pairs = [(board.cell(row, dataset, habit), board.cell(row, dataset, HONEST[habit])) for dataset in board.datasets]
    gains = [gain.points for inflated, honest in pairs if (gain := inflated.paired_with(honest)) is not None]
    if not gains:
        return NOT_RUN
    mean = signed(sum(gains) / len(gains))
    return f"{mean} ({signed(min(gains))} to {signed(max(gains))}, {counted(len(gains), 'graph')})"
