"""``graphkin bench``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from graphkin.commands.options.shared import DataRootOption, DeviceOption, JsonOption


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure time and peak memory of the objective and of a whole epoch on this machine, each against the dense computation.

    Every contender is compared with the definition first. One that disagrees is reported and not timed.

    Examples:

      graphkin bench

      graphkin bench objective --nodes 5000 --nodes 20000 --width 256 --plot bench.png

      graphkin bench objective --weights kinship --weights infonce --nodes 19717 --width 256

      graphkin bench epoch --graph pubmed --method grace+
    """

    what: Annotated[list[str] | None, typer.Argument(metavar="[objective] [epoch]", help="Default: both.")] = None
    nodes: Annotated[list[int] | None, typer.Option(help="For objective: number of nodes; may be repeated.")] = None
    width: Annotated[list[int] | None, typer.Option(help="For objective: width of an embedding; may be repeated.")] = None
    weights: Annotated[
        list[str] | None,
        typer.Option(
            help="For objective: infonce, stored, stored-bf16, on-the-fly, kinship or kinship-stored; may be repeated. "
            "Default: all."
        ),
    ] = None
    features: Annotated[int, typer.Option(help="For objective, on the fly: features per node.")] = 500
    graph: Annotated[list[str] | None, typer.Option(help="For epoch: a dataset or a path; may be repeated.")] = None
    method: Annotated[
        list[str] | None, typer.Option(help="For epoch: grace, grace+ or kin; may be repeated. Default: all.")
    ] = None
    device: DeviceOption = "auto"
    repeats: Annotated[int, typer.Option(help="How many times to time each, at most.")] = 10
    out: Annotated[Path, typer.Option(help="Folder with the result files, to which rows are added.")] = Path(
        "benchmarks/results"
    )
    plot: Annotated[Path | None, typer.Option(help="Also plot time and memory against the number of nodes, to this file.")] = (
        None
    )
    data_root: DataRootOption = None
    as_json: JsonOption = False
