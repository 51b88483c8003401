"""``graphkin cluster``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import JsonOption, OverwriteOption, RunArgument, SeedOption


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Group the nodes of a run by their embeddings, and write the cluster of each.

    Without --count, the number of clusters with the highest mean silhouette is taken. Cluster 1 is the largest.

    Examples:

      graphkin cluster runs/cora-bundled-kin-seed0

      graphkin cluster runs/my-run --count 12 --out clusters.parquet
    """

    run: RunArgument
    count: Annotated[int | None, typer.Option(help="How many clusters. Default: chosen from the embeddings.")] = None
    seed: SeedOption = 0
    out: Annotated[
        Path | None, typer.Option(help="The file to write: .csv or .parquet. Default: clusters.csv in the folder.")
    ] = None
    overwrite: OverwriteOption = False
    as_json: JsonOption = False

    @property
    def target(self) -> Path:
        return self.run / "clusters.csv" if self.out is None else self.out
