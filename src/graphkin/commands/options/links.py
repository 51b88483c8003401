"""``graphkin links``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import DeviceOption, ExactOption, JsonOption, OverwriteOption, QuietOption, RunOptions


@dataclass(frozen=True, kw_only=True)
class Links(RunOptions):
    """Edges that may be missing: the most similar pairs of nodes that have none, by the cosine of their embeddings.

    Examples:

      graphkin links runs/cora-bundled-kin-seed0

      graphkin links runs/my-run --count 1000 --out links.csv
    """

    count: Annotated[int, typer.Option(help="How many.")] = 20
    out: Annotated[Path | None, typer.Option(help="Write them to this file too: .csv or .parquet.")] = None
    exact: ExactOption = False
    device: DeviceOption = "auto"
    quiet: QuietOption = False
    overwrite: OverwriteOption = False
    as_json: JsonOption = False
