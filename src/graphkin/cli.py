"""The command line. No logic here: each command reads its arguments, calls the library and prints."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from graphkin import __version__
from graphkin.bench import Results, read
from graphkin.bench.objective import WEIGHTS
from graphkin.bench.plan import Plan
from graphkin.bench.plot import plot as draw
from graphkin.datasets import DATASETS, DEFAULT
from graphkin.display import bench_line, dataset_table, experiment_table, print_fit, score_table, summary_tables
from graphkin.errors import InputError, OutputError, SettingError, check_choice, check_range, check_whole
from graphkin.evaluation import PROTOCOLS, Scores, evaluate
from graphkin.evaluation import baselines as baseline_rows
from graphkin.experiments import NAMES as EXPERIMENTS
from graphkin.experiments import experiments_named
from graphkin.experiments.reproduce import open_graphs, reproduce, runs_left
from graphkin.experiments.store import Store
from graphkin.experiments.tables import summarise
from graphkin.experiments.watch import watch
from graphkin.files import check_writable, write_whole
from graphkin.fitted import load
from graphkin.parallel import LostError, ToldElsewhereError, joined, launched
from graphkin.plans import parse_memory, plan_for
from graphkin.presets import NAMES
from graphkin.readers import open_graph
from graphkin.report.map import LAYOUTS
from graphkin.report.page import fit_page, reproduction_page
from graphkin.runs import (
    CHECKPOINT,
    FORMATS,
    check_file,
    default_folder,
    graph_of_run,
    prepare_folder,
    read_embeddings,
    remove_own_pageranks,
    remove_unfinished,
    scores_of,
    with_baselines,
    write_embeddings,
    write_run,
)
from graphkin.training import check_usable, device_named, fit, resolve

app = typer.Typer(
    name="graphkin",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Node embeddings from a graph without labels: similar nodes attract, dissimilar nodes repel.",
)
results_app = typer.Typer(no_args_is_help=True, help="Export and merge stores of finished runs.")
app.add_typer(results_app, name="results")
console = Console(highlight=False, markup=False)
INTERRUPTED = 130

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


@app.command("fit")
def fit_command(
    graph: GraphArgument = DEFAULT,
    method: Annotated[str, typer.Option("--method", "-m", help=f"One of: {', '.join(NAMES)}.")] = "grace+",
    seed: SeedOption = 0,
    epochs: Annotated[int | None, typer.Option(help="Default: the method's setting for this graph.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for the results. Default: runs/GRAPH-METHOD-seedN.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="Any setting; may be repeated.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Use the shipped settings of this dataset.")] = None,
    memory: Annotated[str | None, typer.Option(help="Use at most so much, e.g. 8GiB. Default: what the device has.")] = None,
    checkpoint_every: CheckpointOption = None,
    splits: SplitsOption = 5,
    nodes: NodesOption = None,
    label: LabelOption = "label",
    ignore: IgnoreOption = None,
    features: FeaturesOption = None,
    data_root: DataRootOption = None,
    kind: FormatOption = "npy",
    baselines: BaselinesOption = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train on a graph and write embeddings, model and run file.

    Without GRAPH, the bundled Cora. Where the graph has labels, the embeddings are scored; labels never train them
    (graph-mlp aside). Ctrl-C stops after the current epoch, keeps what was learned, and exits with status 130.
    With --checkpoint-every, the same command goes on where a killed one stopped.

    Examples:

      graphkin fit

      graphkin fit --method grace --seed 1 --out runs/grace-1

      graphkin fit my-folder --epochs 500 --set beta=0.5 --set drop_edges=0.1,0.3 --format parquet

      graphkin fit edges.csv --nodes nodes.csv --label kind --ignore name

      graphkin fit edges.csv --features degree

      graphkin fit --set tau_pos=0.1 --set tau_neg=0.1 --json > result.json

      graphkin fit large.npz --memory 8GiB

      torchrun --nproc-per-node 4 -m graphkin fit large.npz
    """
    with joined() as among:
        with among.same_fate():
            how_to_read: dict[str, Any] = {"nodes": nodes, "label": label, "ignore": ignore or (), "features": features}
            opened = among.one_at_first(lambda: open_graph(graph, data_root=data_root, **how_to_read))
            chosen = resolve(method, opened, preset).configure(**parse_settings(settings or []))
            if epochs is not None:
                chosen = chosen.configure(epochs=epochs)
            check_usable(opened, chosen)
            check_whole("splits", splits, at_least=1)
            check_whole("seed", seed, at_least=0)
            check_choice("format", kind, FORMATS)
            where, limit = device_named(device), parse_memory(memory)
            if checkpoint_every is not None:
                check_whole("checkpoint-every", checkpoint_every, at_least=1)
        among.check_same(
            (opened.content, where.type),
            "all processes must have the same graph and the same kind of device; this one differs.",
        )
        plan = among.from_first(lambda: plan_for(opened, chosen, where, limit))
        go_on = checkpoint_every is not None

        def results_folder() -> Path:
            target = out or default_folder(opened, chosen.name, seed, go_on=go_on and not overwrite)
            return prepare_folder(target, overwrite=overwrite, go_on=go_on)

        folder = among.from_first(results_folder)
        if overwrite and not among.first:
            remove_own_pageranks(folder)
        style = "visible" if among.first and not quiet else "none"
        checkpoint = None if checkpoint_every is None else folder / CHECKPOINT
        if style != "none":
            print(f"plan: {plan}", file=sys.stderr)
        how: dict[str, Any] = {"memory": plan, "progress": style, "checkpoint": checkpoint}
        try:
            fitted = fit(opened, plan.method, seed=seed, device=device, checkpoint_every=checkpoint_every or 1, **how)
        except LostError as error:
            kept = "with --checkpoint-every the same command would go on" if checkpoint is None else "the same command goes on"
            raise LostError(f"{error}; {kept} from the last checkpoint") from error
        if not among.first and not fitted.interrupted:
            remove_own_pageranks(folder)
        if among.first:
            embeddings = fitted.embed(opened)
            scores = scores_of(fitted, opened, embeddings, splits, seed, baselines)
            record = write_run(folder, fitted, opened, embeddings, scores, kind)
            if checkpoint is not None and not fitted.interrupted:
                remove_unfinished(folder)
            if as_json:
                print_json({"out": str(folder), **record})
            else:
                print_fit(console, opened, fitted, scores, folder / f"embeddings.{kind}")
                if checkpoint is not None and fitted.interrupted:
                    console.print("the same command goes on from here")
    if fitted.interrupted and among.first:  # a process that failed early would have torchrun end the one that writes
        raise typer.Exit(INTERRUPTED)


@app.command("embed")
def embed_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.graphkin that fit wrote.")],
    graph: GraphArgument,
    out: Annotated[Path, typer.Option(help="The file to write: .npy, .parquet or .csv.")] = Path("embeddings.npy"),
    nodes: NodesOption = None,
    label: LabelOption = "label",
    ignore: IgnoreOption = None,
    features: FeaturesOption = None,
    data_root: DataRootOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Embed a graph with a trained model. The graph may be another one with the same features.

    Example:

      graphkin embed runs/cora-bundled-graceplus-seed0/model.graphkin other-graph.npz --out other.npy
    """
    fitted = load(model)
    opened = open_graph(graph, nodes=nodes, label=label, ignore=ignore or (), features=features, data_root=data_root)
    target = check_file(out, overwrite=overwrite)
    embeddings = fitted.embed(opened)
    write_embeddings(target, embeddings, opened.ids)
    if as_json:
        print_json({"out": str(target), "nodes": embeddings.size(0), "dimensions": embeddings.size(1)})
    else:
        console.print(f"{target}: {embeddings.size(0)} nodes, {embeddings.size(1)} dimensions", soft_wrap=True)


@app.command("evaluate")
def evaluate_command(
    embeddings: Annotated[
        Path, typer.Argument(metavar="EMBEDDINGS", help="A .npy, .parquet or .csv file with one row a node.")
    ],
    graph: Annotated[
        str | None, typer.Argument(metavar="GRAPH", help="As for fit. Default: the dataset that the run file beside names.")
    ] = None,
    protocol: Annotated[str, typer.Option(help=f"One of: {', '.join(PROTOCOLS)}.")] = "grace",
    splits: SplitsOption = 10,
    seed: SeedOption = 0,
    train: Annotated[float, typer.Option(help="Share of the nodes to train on.")] = 0.1,
    val: Annotated[float, typer.Option(help="Share of the nodes to choose C on.")] = 0.1,
    ratio: Annotated[float | None, typer.Option(help="grace: train on this share of all nodes, e.g. 0.02.")] = None,
    per_class: Annotated[int, typer.Option(help="few-labels: training nodes of each class.")] = 5,
    nodes: NodesOption = None,
    label: LabelOption = "label",
    ignore: IgnoreOption = None,
    features: FeaturesOption = None,
    data_root: DataRootOption = None,
    baselines: BaselinesOption = True,
    as_json: JsonOption = False,
) -> None:
    """Score embeddings against the labels of a graph.

    Example:

      graphkin evaluate runs/cora-bundled-graceplus-seed0/embeddings.npy cora-bundled --splits 20
    """
    graph = graph or graph_of_run(embeddings)
    opened = open_graph(graph, nodes=nodes, label=label, ignore=ignore or (), features=features, data_root=data_root)
    options: dict[str, Any] = {"train": train, "val": val, "ratio": ratio, "per_class": per_class}

    def score(rows: Any) -> Scores:
        return evaluate(rows, opened, protocol=protocol, splits=splits, seed=seed, **options)

    scores = {"embeddings": score(read_embeddings(embeddings, opened.ids))}
    if baselines:
        encoder = resolve("grace", opened)
        scores |= {name: score(rows) for name, rows in baseline_rows(opened, encoder, seed).items()}
    if as_json:
        print_json({"graph": opened.name, **with_baselines(scores)})
    else:
        console.print(score_table(scores, opened.name))


@app.command("datasets")
def datasets_command(data_root: DataRootOption = None, as_json: JsonOption = False) -> None:
    """List the graphs that can be used by name, and whether they are on this machine."""
    if as_json:
        entries = [vars(dataset) | {"state": dataset.state(data_root)} for dataset in DATASETS.values()]
        print_json({"datasets": entries})
        return
    console.print(dataset_table(data_root))


@app.command("reproduce")
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
        for name, reason in missing.items():
            console.print(f"{name} was left out: {reason}", soft_wrap=True)
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


@app.command("report")
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
    command = f"graphkin report {source}"
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
    write_whole(page, lambda file: file.write_text(text, encoding="utf-8"))
    console.print(f"{page}: {len(text.encode()) / 2**20:.1f} MiB, opens in any browser", soft_wrap=True)


@contextlib.contextmanager
def _finished_runs_kept(store: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"graphkin: interrupted; finished runs are in {store}, and the same command goes on.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


@results_app.command("export")
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


@results_app.command("merge")
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


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE with numbers, true, false, none, lists after commas, and words."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or not text:
            raise SettingError(f"--set takes NAME=VALUE, such as beta=0.5, found {pair!r}.")
        values = [_parse_value(part.strip()) for part in text.split(",")]
        settings[name.strip().replace("-", "_")] = tuple(values) if len(values) > 1 else values[0]
    return settings


def _parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@app.command("bench")
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


def print_json(record: dict[str, Any]) -> None:
    print(json.dumps(record))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"graphkin {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand != "fit" and launched().size > 1:
        raise SettingError(f"torchrun goes with fit, which shares out its work; {context.invoked_subcommand} is run once.")


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] or ["--help"]))


def run(arguments: list[str]) -> int:
    """Exit status: 0 it worked, 2 the user's mistake in one line, 1 a failure of ours."""
    try:
        status = app(arguments, prog_name="graphkin", standalone_mode=False)
    except InputError as error:
        return _complain(str(error))
    except LostError as error:
        _complain(str(error))
        return 1
    except ToldElsewhereError:
        return 2
    except OSError as error:
        return _complain(f"{error.filename or 'a file'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("graphkin: interrupted; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is not None:
            return _complain(message())
        traceback.print_exc()
        print("graphkin: this is a failure of graphkin itself, please report it.", file=sys.stderr)
        return 1
    return status if isinstance(status, int) else 0


def _complain(message: str) -> int:
    print("graphkin: " + " ".join(message.split()), file=sys.stderr)
    return 2
