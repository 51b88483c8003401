"""``graphkin embed``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import GraphArgument, JsonOption, OverwriteOption, ReadingOptions


@dataclass(frozen=True, kw_only=True)
class Embed(ReadingOptions):
    """Embed a graph with a trained model. It may be another graph with the same features.

    Example:

      graphkin embed runs/cora-bundled-kin-seed0/model.graphkin other-graph.npz --out other.npy
    """

    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.graphkin that fit wrote.")]
    graph: GraphArgument
    out: Annotated[Path, typer.Option(help="The file to write: .npy, .parquet or .csv.")] = Path("embeddings.npy")
    overwrite: OverwriteOption = False
    as_json: JsonOption = False
