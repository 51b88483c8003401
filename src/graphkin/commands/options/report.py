"""``graphkin report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import OverwriteOption, ReadingOptions


@dataclass(frozen=True, kw_only=True)
class Report(ReadingOptions):
    """Make one HTML page of a reproduction or of a single run. It needs no network.

    Examples:

      graphkin report results.sqlite

      graphkin report runs/cora-bundled-kin-seed0

      graphkin report runs/my-run --out my-run.html
    """

    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A store that reproduce wrote, or a folder that fit wrote.")]
    graph: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="For a folder: its graph. Default: the graph of the run, from its run file."),
    ] = None
    out: Annotated[Path | None, typer.Option(help="The page to write. Default: SOURCE.html, or report.html in the folder.")] = (
        None
    )
    experiments: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="For a store: an experiment to show; may be repeated. Default: all that have runs."),
    ] = None
    seeds: Annotated[int | None, typer.Option(help="For a store: as in reproduce.")] = None
    epochs: Annotated[int | None, typer.Option(help="For a store: as in reproduce.")] = None
    layout: Annotated[str, typer.Option(help="For a folder: the layout of the map, tsne or pca.")] = "tsne"
    overwrite: OverwriteOption = False

    @property
    def page(self) -> Path:
        if self.out is not None:
            return self.out
        return self.source / "report.html" if self.source.is_dir() else self.source.with_suffix(".html")

    @property
    def command(self) -> str:
        """How to make the same page again."""
        options = [("experiment", name) for name in self.experiments or ()] + [("seeds", self.seeds), ("epochs", self.epochs)]
        return f"graphkin report {self.source}" + "".join(f" --{name} {value}" for name, value in options if value is not None)
