"""``graphkin evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from graphkin.commands.loading import loaded
from graphkin.commands.options.shared import BaselinesOption, JsonOption, ReadingOptions, SeedOption, SplitsOption


def _list_protocols(wanted: bool) -> None:
    if wanted:
        loaded("graphkin.commands.evaluate:print_protocols")()
        raise typer.Exit


@dataclass(frozen=True, kw_only=True)
class Evaluate(ReadingOptions):
    """Score embeddings against the labels of a graph, or by the edges that fit held out (--protocol links).

    Examples:

      graphkin evaluate runs/cora-bundled-kin-seed0 --splits 20

      graphkin evaluate runs/my-run --protocol links

      graphkin evaluate embeddings.csv my-folder --protocol clustering
    """

    embeddings: Annotated[
        Path,
        typer.Argument(
            metavar="EMBEDDINGS", help="The folder of a run, or a .npy, .parquet or .csv file with one row per node."
        ),
    ]
    graph: Annotated[
        str | None,
        typer.Argument(
            metavar="GRAPH",
            help="The graph, as in fit. Default: the graph of the run, from the run file next to the embeddings.",
        ),
    ] = None
    protocol: Annotated[str, typer.Option(help="How to score; --protocols lists the names.")] = "grace"
    protocols: Annotated[
        bool, typer.Option("--protocols", callback=_list_protocols, is_eager=True, help="List the protocols and exit.")
    ] = False
    splits: SplitsOption = 10
    seed: SeedOption = 0
    train: Annotated[float | None, typer.Option(help="Share of the nodes to train on. Default: 0.1.")] = None
    val: Annotated[float | None, typer.Option(help="Share of the nodes to choose C on. Default: 0.1.")] = None
    ratio: Annotated[float | None, typer.Option(help="grace: train on this share of all nodes, e.g. 0.02.")] = None
    per_class: Annotated[int | None, typer.Option(help="few-labels: training nodes of each class. Default: 5.")] = None
    baselines: BaselinesOption = True
    as_json: JsonOption = False

    def given(self) -> dict[str, Any]:
        """The options of protocols that the user gave."""
        options = {"train": self.train, "val": self.val, "ratio": self.ratio, "per_class": self.per_class}
        return {name: value for name, value in options.items() if value is not None}
