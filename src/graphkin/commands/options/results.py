"""``graphkin results export`` and ``graphkin results merge``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import OverwriteOption


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write all runs of a store to one JSON or CSV file."""

    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store that reproduce wrote.")]
    out: Annotated[Path, typer.Option(help="The file to write: .json (can be read back) or .csv (one line per measure).")]
    overwrite: OverwriteOption = False


@dataclass(frozen=True, kw_only=True)
class Merge:
    """Add the runs of other stores to one. Runs that it already has stay as they are."""

    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The store to add to; created if it does not exist.")]
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Stores or their .json exports.")]
