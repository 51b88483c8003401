"""Write docs/leaderboard.md from the committed runs: ``python scripts/leaderboard_page.py``."""

from __future__ import annotations

from pathlib import Path

from graphkin.experiments import PEERS, experiment_named
from graphkin.experiments.board import Board, board_of
from graphkin.experiments.store import Store
from graphkin.report import board_markdown

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "docs" / "results" / "reproduction.json"
PAGE = ROOT / "docs" / "leaderboard.md"
PARTS = {
    "advice": board_markdown.advice_table,
    "measures": board_markdown.measure_tables,
    "pairs": board_markdown.pairs_table,
    "costs": board_markdown.cost_table,
    "settings": board_markdown.settings_list,
    "published": board_markdown.published_table,
    "habits": board_markdown.habits_table,
}
"""what stands between ``<!-- NAME -->`` and ``<!-- end -->``"""


def committed() -> Board:
    found = board_of([experiment_named(name) for name in PEERS], Store(RUNS, read_only=True))
    assert found is not None
    return found


def page(text: str) -> str:
    board = committed()
    for name, made in PARTS.items():
        before, rest = text.split(f"<!-- {name} -->\n")
        text = f"{before}<!-- {name} -->\n{made(board)}{rest[rest.index('<!-- end -->') :]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
