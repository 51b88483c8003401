"""Where commands print."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from graphkin.errors import printable


class PlainConsole(Console):
    """Text from a user's files is shown, and must not steer the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """Rich would leave with status 1; ``cli`` has its own."""
        raise


console = PlainConsole(highlight=False, markup=False)


def say(line: str, style: str | None = None) -> None:
    """One line, however long."""
    console.print(line, style=style, soft_wrap=True)


def print_json(record: dict[str, Any]) -> None:
    print(json.dumps(record))
