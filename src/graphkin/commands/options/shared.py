"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from graphkin.errors import SettingError

READING = "Reading the graph"

GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A dataset's name (see [b]graphkin datasets[/b]), synthetic-N for N made-up nodes, a folder with edges and nodes "
        "tables, or a file: .csv, .tsv, .parquet (edges), .npz, .graphml, .gexf.",
    ),
]
DataRootOption = Annotated[
    Path | None,
    typer.Option(help="Where the datasets are. Default: $GRAPHKIN_DATA, then the user's cache.", rich_help_panel=READING),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
ExactOption = Annotated[bool, typer.Option("--exact", help="Compare all pairs, even where an approximate index would be used.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to standard error.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace existing results.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
SeedOption = Annotated[int, typer.Option(help="The seed for all randomness.")]
SplitsOption = Annotated[int, typer.Option(help="How many random splits to score on.")]
CheckpointOption = Annotated[int | None, typer.Option(metavar="N", help="Save a checkpoint every N epochs.")]
BaselinesOption = Annotated[
    bool, typer.Option(help="Also score training-free baselines: features, smoothed features, an untrained encoder.")
]

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that fit wrote.")]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How to read a graph of the user's own."""

    nodes: Annotated[
        Path | None, typer.Option(help="The nodes table that belongs to an edges table.", rich_help_panel=READING)
    ] = None
    label: Annotated[str, typer.Option(help="The column with the class of a node, if any.", rich_help_panel=READING)] = "label"
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be repeated.", rich_help_panel=READING)
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=KIND",
            help="What a column is: number, count, flag, date, category or text; may be repeated. Default: by its values.",
            rich_help_panel=READING,
        ),
    ] = None
    source_column: Annotated[
        str | None,
        typer.Option(
            "--source", help="The column of the edges table where an edge starts. Default: source.", rich_help_panel=READING
        ),
    ] = None
    target_column: Annotated[
        str | None,
        typer.Option(
            "--target", help="The column of the edges table where an edge ends. Default: target.", rich_help_panel=READING
        ),
    ] = None
    weight_column: Annotated[
        str | None,
        typer.Option(
            "--weight", help="The column of the edges table with the weights. Default: weight.", rich_help_panel=READING
        ),
    ] = None
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column of the nodes table with the ids. Default: id.", rich_help_panel=READING),
    ] = None
    bipartite: Annotated[
        bool,
        typer.Option(
            "--bipartite",
            help="Sources and targets are different nodes, even with equal ids: user:7 and item:7.",
            rich_help_panel=READING,
        ),
    ] = False
    features: Annotated[
        str | None, typer.Option(help="Make features from the edges: degree or positional.", rich_help_panel=READING)
    ] = None
    data_root: DataRootOption = None

    def reading(self) -> dict[str, Any]:
        """What :func:`graphkin.open_graph` takes besides the graph."""
        return {
            "nodes": self.nodes,
            "label": self.label,
            "ignore": self.ignore or (),
            "columns": parse_kinds(self.columns or ()),
            "source": self.source_column,
            "target": self.target_column,
            "weight": self.weight_column,
            "id": self.id_column,
            "bipartite": self.bipartite,
            "features": self.features,
            "data_root": self.data_root,
        }


@dataclass(frozen=True, kw_only=True)
class RunOptions(ReadingOptions):
    """A run, and its graph where that is not the recorded one."""

    run: RunArgument
    graph: Annotated[
        str | None,
        typer.Option(help="The graph, as in fit. Default: the graph of the run, from its run file.", rich_help_panel=READING),
    ] = None


def parse_kinds(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=KIND of columns; several may stand in one, separated by commas."""
    kinds = {}
    for pair in (part for text in pairs for part in text.split(",")):
        name, equals, kind = pair.partition("=")
        if not equals or not name.strip() or not kind.strip():
            raise SettingError(f"--columns takes NAME=KIND, such as zip=category, found {pair!r}.")
        kinds[name.strip()] = kind.strip().lower()
    return kinds
