"""A leaderboard as GitHub Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from graphkin.evaluation.protocols import HABITS
from graphkin.experiments.board import NOT_RUN, Board
from graphkin.report.board import Advice, BoardCell, BoardTable, ShownBoard, shown_board
from graphkin.report.habits import beside_published, habit_gains
from graphkin.report.markdown import escaped

FACTS = {"nodes": "{:,}", "features": "{:,}", "homophily": "{:.2f}", "degree": "{:.1f}"}
NO_RUNS = "No runs yet."
WIDTH = 100
"""of a line of prose"""


def advice_table(board: Board) -> str:
    """Which method for which graph."""
    headings = ("graph", *FACTS, "best", "level with it", "without training", "gain", "training takes")
    return table(headings, [_advice(one) for one in shown_board(board).advice])


def _advice(one: Advice) -> list[str]:
    facts = [form.format(one.facts[name]) if name in one.facts else "–" for name, form in FACTS.items()]
    best = f"{one.rows[0]}, {one.best.text}" if one.rows else one.best.text
    level = "the only row run" if one.alone else ", ".join(one.rows[1:])
    return [one.graph, *facts, best, level, one.free.text, one.gain, one.cost]


def measure_tables(board: Board) -> str:
    """One for each measure, with mean ranks; then time and memory."""
    shown = shown_board(board)
    parts = []
    for one in shown.tables:
        known = any(cell.key is not None for row in one.rows for cell in row.cells)
        body = [_measure(shown, one).rstrip(), textwrap.fill(one.ranks, WIDTH)] if known else [NO_RUNS]
        parts += [f"### {escaped(one.caption)}", *body]
    return "\n\n".join(parts) + "\n"


def _measure(board: ShownBoard, shown: BoardTable) -> str:
    rows = [[row.name, "–" if row.rank is None else f"{row.rank:.2f}", *map(_cell, row.cells)] for row in shown.rows]
    return table_of_runs(("", "mean rank", *board.datasets), rows)


def cost_table(board: Board) -> str:
    shown = shown_board(board)
    return table_of_runs(("", *shown.datasets), [[row.name, *(cell.text for cell in row.cells)] for row in shown.costs])


def settings_list(board: Board) -> str:
    lines = (f"- {row.name}: {row.settings}." for row in shown_board(board).tables[0].rows)
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines) + "\n"


def pairs_table(board: Board) -> str:
    """Wins, ties and losses."""
    pairs = shown_board(board).pairs
    return table(("", *(name for name, _ in pairs)), [[name, *texts] for name, texts in pairs]) if pairs else f"{NO_RUNS}\n"


def published_table(board: Board) -> str:
    headings = ("", "graph", "ours, our protocol", "ours, their evaluation", "published", "where it was read")
    found = beside_published(board)
    return table(headings, [[one.row, one.graph, one.ours, one.theirs, one.published, one.source] for one in found])


def habits_table(board: Board) -> str:
    return table_of_runs(("", *(f"`{habit}`" for habit in HABITS)), [[row, *texts] for row, texts in habit_gains(board)])


def table_of_runs(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows that were run on some graph; a line names the others."""
    left_out = [row[0] for row in rows if set(row[1:]) <= {NOT_RUN, "–"}]
    told = textwrap.fill(f"Not run yet: {', '.join(left_out)}.", WIDTH) if left_out else ""
    if len(left_out) == len(rows):
        return f"{NO_RUNS}\n"
    return table(headings, [row for row in rows if row[0] not in left_out]) + (f"\n{told}\n" if told else "")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(cell: BoardCell) -> str:
    return f"**{cell.text}**" if cell.best else cell.text
