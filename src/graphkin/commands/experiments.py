"""reproduce, report, results."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from graphkin.commands.display import experiment_table, summary_tables
from graphkin.commands.options import (
    CheckpointOption,
    DataRootOption,
    FeaturesOption,
    IgnoreOption,
    JsonOption,
    LabelOption,
    NodesOption,
    OverwriteOption,
    StoreOption,
    console,
    print_json,
)
from graphkin.commands.runs import graph_of_run
from graphkin.errors import OutputError, SettingError, check_choice, check_range, check_whole
from graphkin.experiments import NAMES as EXPERIMENTS
from graphkin.experiments import SEARCHES, experiments_named
from graphkin.experiments.plan import tasks_of
from graphkin.experiments.reproduce import open_graphs, reproduce, runs_left
from graphkin.experiments.store import Store
from graphkin.experiments.tables import Summary, summarise
from graphkin.experiments.watch import watch
from graphkin.graphs.readers import open_graph
from graphkin.report.map import LAYOUTS
from graphkin.report.page import fit_page, reproduction_page
from graphkin.support import signals
from graphkin.support.files import check_writable, write_whole
from graphkin.training.fit import device_named


def reproduce_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments (see --list), files of that form, or all.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    datasets: Annotated[list[str] | None, typer.Option(help="Only these graphs; may be repeated.")] = None,
    rows: Annotated[list[str] | None, typer.Option(help="Only these rows, by their names; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of every row. Default: the paper's number.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every method. Default: its setting.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    jobs: Annotated[
        int | None, typer.Option(help="Processes that train (CPU, default 1) or score (GPU, default: cores less two).")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Start no run after this time.")] = None,
    checkpoint_every: CheckpointOption = None,
    store: StoreOption = Path("results.sqlite"),
    data_root: DataRootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce tables and figures of the paper.

    Every run is kept in the store when it ends. Stopped at any moment, the same command goes on where it stopped; several
    processes may share a store.

    Examples:

      graphkin reproduce --list

      graphkin reproduce gca --datasets photo --seeds 5 --device cuda

      graphkin reproduce all

      graphkin reproduce my-experiment.toml --jobs 4
    """
    chosen = experiments_named(names or (["all"] if show_list else []), datasets, rows, seeds)
    if show_list:
        console.print(experiment_table(chosen))
        if not names:
            console.print(f"also: {', '.join(SEARCHES)} (how our settings were chosen; not part of all)")
        return
    device_named(device)
    for name, value in (("epochs", epochs), ("jobs", jobs), ("checkpoint-every", checkpoint_every)):
        if value is not None:
            check_whole(name, value, at_least=1)
    if minutes is not None:
        check_range("minutes", minutes, above=0)
    graphs, missing = open_graphs(chosen, data_root, datasets)
    if not graphs:
        raise SettingError(f"no graph of {', '.join(names or ())} can be opened: {next(iter(missing.values()))}")
    left_out = [f"{name} was left out: {reason}" for name, reason in missing.items()]
    for line in left_out if not quiet else ():
        print(line, file=sys.stderr)
    with contextlib.closing(Store(store)) as results:
        results.check_writable()
        with _finished_runs_kept(store), watch(quiet=quiet) as watching:
            limit = None if minutes is None else 60 * minutes
            how: dict[str, Any] = {"epochs": epochs, "device": device, "jobs": jobs, "seconds": limit}
            failures = reproduce(chosen, results, graphs, watching, checkpoint_every=checkpoint_every, **how)
        left = runs_left(chosen, results, graphs, epochs=epochs) - sum(len(failure.job.seeds) for failure in failures)
        contents = {name: opened.content for name, opened in graphs.items()}
        summaries = [summarise(experiment, results, epochs, contents) for experiment in chosen]
    if as_json:
        told = {"store": str(store), "left": left, "missing": missing, "failed": {f.job.title: f.reason for f in failures}}
        print_json({**told, "experiments": [summary.as_dict() for summary in summaries]})
    else:
        for summary in summaries:
            for table in summary_tables(summary):
                console.print(table)
        for line in left_out:
            console.print(line, soft_wrap=True)
        if left:
            console.print(f"{left} runs are left, for which there was no time: the same command goes on")
        options = [f" --experiment {name}" for name in names or () if name not in (*EXPERIMENTS, "all")]
        options += [f" --{name} {value}" for name, value in (("seeds", seeds), ("epochs", epochs)) if value is not None]
        console.print(
            f"finished runs are in {store}; graphkin report {store}{''.join(options)} makes a page of them", soft_wrap=True
        )
    if failures:
        first = failures[0]
        raise SettingError(f"{len(failures)} runs failed, the first of them {first.job.title}: {first.reason}")


def report_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A store that reproduce wrote, or a folder that fit wrote.")],
    graph: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="For a folder: its graph. Default: the dataset that its run file names."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page to write. Default: SOURCE.html, or report.html in the folder.")
    ] = None,
    experiments: Annotated[
        list[str] | None, typer.Option("--experiment", help="For a store: only these; may be repeated. Default: all with runs.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="For a store: as in reproduce.")] = None,
    epochs: Annotated[int | None, typer.Option(help="For a store: as in reproduce.")] = None,
    layout: Annotated[str, typer.Option(help=f"For a folder, of the map: {', '.join(LAYOUTS)}.")] = "tsne",
    nodes: NodesOption = None,
    label: LabelOption = "label",
    ignore: IgnoreOption = None,
    features: FeaturesOption = None,
    data_root: DataRootOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Make one HTML page of a reproduction or of a single run; it needs no network.

    Examples:

      graphkin report results.sqlite

      graphkin report runs/cora-bundled-graceplus-seed0

      graphkin report runs/my-run my-folder --out my-run.html
    """
    check_choice("layout", layout, LAYOUTS)
    page = out or (source / "report.html" if source.is_dir() else source.with_suffix(".html"))
    if page.exists() and not overwrite:
        raise OutputError(f"{page} exists already: choose another --out, or add --overwrite.")
    check_writable(page.parent)
    if graph is not None and not source.is_dir():
        raise SettingError(f"a graph goes with a folder that fit wrote; {source} is a store, found {graph!r} beside it.")
    options = [("experiment", name) for name in experiments or ()] + [("seeds", seeds), ("epochs", epochs)]
    command = f"graphkin report {source}" + "".join(f" --{name} {value}" for name, value in options if value is not None)
    left_out = 0
    if source.is_dir():
        name = graph or graph_of_run(source / "run.json")
        opened = open_graph(name, nodes=nodes, label=label, ignore=ignore or (), features=features, data_root=data_root)
        text = fit_page(source, opened, layout=layout, command=command, say=lambda line: print(line, file=sys.stderr))
    else:
        with contextlib.closing(Store(source, read_only=True)) as results:
            chosen = experiments_named(experiments or ["all"], seeds=seeds)
            found = [summarise(experiment, results, epochs) for experiment in chosen]
            summaries = [summary for summary in found if summary.runs[0]] if not experiments else found
            if not summaries:
                raise OutputError(
                    f"{source} has no runs of the paper's experiments; --experiment and --epochs say of which others."
                )
            text = reproduction_page(summaries, results.environments(), command)
            finished = results.finished()
            left_out = _left_out(finished, summaries, results.contents())
    write_whole(page, lambda file: file.write_text(text, encoding="utf-8"))
    console.print(f"{page}: {len(text.encode()) / 2**20:.1f} MiB, opens in any browser", soft_wrap=True)
    if left_out:
        console.print(
            f"{left_out:,} of {len(finished):,} runs are not on it, being of other experiments, seeds or epochs: --experiment, "
            "--seeds and --epochs choose.",
            soft_wrap=True,
        )


def _left_out(finished: set[tuple[str, int]], summaries: list[Summary], contents: dict[str, str]) -> int:
    shown = {
        (task.key, seed)
        for summary in summaries
        for task, seeds in tasks_of(summary.experiment, contents, summary.cut_to).values()
        for seed in seeds
    }
    return len(finished - shown)


def export_command(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store that reproduce wrote.")],
    out: Annotated[Path, typer.Option(help="The file to write: .json (can be read back) or .csv (a line a measure).")],
    overwrite: OverwriteOption = False,
) -> None:
    """Write all runs of a store to one JSON or CSV file."""
    if out.exists() and not overwrite:
        raise OutputError(f"{out} exists already: choose another --out, or add --overwrite.")
    with contextlib.closing(Store(store, read_only=True)) as results:
        results.export(out)
        console.print(f"{out}: {len(results.finished())} runs", soft_wrap=True)


def merge_command(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The store to add to; made if it is not there.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Stores or their .json exports.")],
) -> None:
    """Add the runs of other stores to one; runs that it has stay as they are."""
    opened = [Store(source, read_only=True) for source in sources]
    with contextlib.closing(Store(target)) as results:
        results.check_writable()
        for source, other in zip(sources, opened, strict=True):
            console.print(f"{source}: {results.merge(other)} runs added to {target}", soft_wrap=True)
            other.close()


@contextlib.contextmanager
def _finished_runs_kept(store: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        word = "terminated" if signals.terminated() else "interrupted"
        print(f"graphkin: {word}; finished runs are in {store}, and the same command goes on.", file=sys.stderr)
        raise typer.Exit(signals.status()) from None
