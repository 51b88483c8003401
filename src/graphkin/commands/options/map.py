"""``graphkin map``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import JsonOption, OverwriteOption, RunOptions


@dataclass(frozen=True, kw_only=True)
class Map(RunOptions):
    """Place the nodes of a run on a plane: a file with two coordinates per node, and a picture.

    Examples:

      graphkin map runs/cora-bundled-kin-seed0

      graphkin map runs/my-run --layout pca --out map.parquet --picture map.svg
    """

    layout: Annotated[str, typer.Option(help="tsne or pca.")] = "tsne"
    colour: Annotated[str, typer.Option(help="label or cluster; auto is label if there are labels.")] = "auto"
    out: Annotated[Path | None, typer.Option(help="The file to write: .csv or .parquet. Default: map.csv in the folder.")] = (
        None
    )
    picture: Annotated[
        Path | None, typer.Option(help="The picture: .png, .svg or .pdf. Default: like --out, ending in .png.")
    ] = None
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Write only the coordinates.")] = False
    overwrite: OverwriteOption = False
    as_json: JsonOption = False

    @property
    def target(self) -> Path:
        return self.run / "map.csv" if self.out is None else self.out

    @property
    def drawn(self) -> Path | None:
        if self.no_picture:
            return None
        return self.target.with_suffix(".png") if self.picture is None else self.picture
