"""``graphkin reproduce``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import CheckpointOption, DataRootOption, DeviceOption, JsonOption, QuietOption


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Reproduce tables and figures of the paper.

    Every finished run is saved in the store. You can stop the command at any time: called again, it resumes. Several processes
    may share a store.

    Examples:

      graphkin reproduce --list

      graphkin reproduce gca --datasets photo --seeds 5 --device cuda

      graphkin reproduce all

      graphkin reproduce my-experiment.toml --jobs 4
    """

    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Experiments (see --list), your own in .toml files, or all."),
    ] = None
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False
    datasets: Annotated[list[str] | None, typer.Option(help="Only these graphs; may be repeated.")] = None
    rows: Annotated[list[str] | None, typer.Option(help="Only these rows, by their names; may be repeated.")] = None
    seeds: Annotated[int | None, typer.Option(help="Seeds per row. Default: as many as in the paper.")] = None
    epochs: Annotated[int | None, typer.Option(help="Epochs for every method. Default: the method's setting.")] = None
    device: DeviceOption = "auto"
    jobs: Annotated[
        int | None,
        typer.Option(help="Processes that train (on a CPU, default 1) or score (on a GPU, default: all cores but two)."),
    ] = None
    minutes: Annotated[float | None, typer.Option(help="Start no run after this many minutes.")] = None
    checkpoint_every: CheckpointOption = None
    store: Annotated[Path, typer.Option(help="The file with finished runs.")] = Path("results.sqlite")
    data_root: DataRootOption = None
    quiet: QuietOption = False
    as_json: JsonOption = False
