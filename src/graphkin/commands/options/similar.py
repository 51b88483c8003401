"""``graphkin similar``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import ExactOption, JsonOption, OverwriteOption, RunArgument


@dataclass(frozen=True, kw_only=True)
class Similar:
    """The nodes most similar to given ones, by the cosine of their embeddings.

    Examples:

      graphkin similar runs/cora-bundled-kin-seed0 12 340

      graphkin similar runs/my-run ann bob --count 5 --out near.csv
    """

    run: RunArgument
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Node ids; if the graph has none, indices from 0.")]
    count: Annotated[int, typer.Option(help="How many similar nodes to list for each.")] = 10
    out: Annotated[Path | None, typer.Option(help="Write them to this file too: .csv or .parquet.")] = None
    exact: ExactOption = False
    overwrite: OverwriteOption = False
    as_json: JsonOption = False
