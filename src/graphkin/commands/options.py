"""Arguments and options that several commands share, and where they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from graphkin.errors import printable


class PlainConsole(Console):
    """Text from a user's files is shown, and does not steer the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """Rich would leave with status 1; ``cli`` knows better."""
        raise


console = PlainConsole(highlight=False, markup=False)

GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A dataset's name (see [b]graphkin datasets[/b]), synthetic-N for N made-up nodes, a folder with edges and nodes "
        "tables, or a file: .csv, .tsv, .parquet (edges), .npz, .graphml, .gexf.",
    ),
]
NodesOption = Annotated[Path | None, typer.Option("--nodes", help="The nodes table beside an edges table.")]
LabelOption = Annotated[str, typer.Option("--label", help="The column with the class of a node, if any.")]
IgnoreOption = Annotated[list[str] | None, typer.Option("--ignore", help="A column to leave out; may be repeated.")]
FeaturesOption = Annotated[str | None, typer.Option(help="Make features from the edges: degree or positional.")]
DataRootOption = Annotated[Path | None, typer.Option(help="Where datasets lie. Default: $GRAPHKIN_DATA, the user's cache.")]
FormatOption = Annotated[str, typer.Option("--format", help="Of the embeddings: npy, parquet or csv, with node ids.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to standard error.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace results that are there already.")]
SeedOption = Annotated[int, typer.Option(help="The one source of all randomness.")]
SplitsOption = Annotated[int, typer.Option(help="How many random splits to score on.")]
CheckpointOption = Annotated[int | None, typer.Option(help="Keep a checkpoint of training every so many epochs.")]
StoreOption = Annotated[Path, typer.Option(help="The file with finished runs.")]
BaselinesOption = Annotated[bool, typer.Option(help="Also score what costs no training: features and an untrained encoder.")]


def print_json(record: dict[str, Any]) -> None:
    print(json.dumps(record))
