"""bench."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from graphkin.bench import Results, read
from graphkin.bench.objective import WEIGHTS
from graphkin.bench.plan import Plan
from graphkin.bench.plot import plot as draw
from graphkin.commands.display import bench_line
from graphkin.commands.options import DataRootOption, JsonOption, console, print_json
from graphkin.support.files import check_writable


def bench_command(
    what: Annotated[list[str] | None, typer.Argument(metavar="[objective] [epoch]", help="Default: both.")] = None,
    nodes: Annotated[list[int] | None, typer.Option(help="For objective: nodes; may be repeated.")] = None,
    width: Annotated[list[int] | None, typer.Option(help="For objective: width of an embedding; may be repeated.")] = None,
    weights: Annotated[list[str] | None, typer.Option(help=f"For objective: {', '.join(WEIGHTS)}; may be repeated.")] = None,
    features: Annotated[int, typer.Option(help="For objective, on the fly: features of a node.")] = 500,
    graph: Annotated[list[str] | None, typer.Option(help="For epoch: a dataset or a path; may be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="For epoch: a method with two views; may be repeated.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    repeats: Annotated[int, typer.Option(help="How often each is timed, at most.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder with the files that rows are added to.")] = Path("benchmarks/results"),
    plot: Annotated[Path | None, typer.Option(help="Also draw time and memory against nodes to this file.")] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the objective and a whole epoch here: time and peak memory, each against the dense way, in one run.

    Every contender is compared with the definition first; one that disagrees is reported and not timed.

    Examples:

      graphkin bench

      graphkin bench objective --nodes 5000 --nodes 20000 --width 256 --plot bench.png

      graphkin bench epoch --graph pubmed --method grace+
    """
    plan = Plan.checked(what, nodes, width, weights, features, graph, method, device, repeats, data_root, plot)
    check_writable(out)
    files = {kind: Results(out / f"{kind}.json") for kind in plan.what}
    for kind, results in files.items():
        for row in plan.rows(kind):
            results.add(row)
            if not as_json:
                console.print(bench_line(row, results.rows), soft_wrap=True)
    if as_json:
        print_json({kind: [asdict(row) for row in results.rows] for kind, results in files.items()})
    if plot is not None:
        draw(read(out / "objective.json"), plot, plan.device.type)
    if not as_json:
        console.print(f"added to {', '.join(str(out / f'{kind}.json') for kind in plan.what)}", soft_wrap=True)
