"""fit, embed, evaluate, datasets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from graphkin.commands.display import dataset_table, print_fit, score_table
from graphkin.commands.options import (
    BaselinesOption,
    CheckpointOption,
    DataRootOption,
    FeaturesOption,
    FormatOption,
    GraphArgument,
    IgnoreOption,
    JsonOption,
    LabelOption,
    NodesOption,
    OverwriteOption,
    SeedOption,
    SplitsOption,
    console,
    print_json,
)
from graphkin.commands.runs import (
    CHECKPOINT,
    check_file,
    default_folder,
    graph_of_run,
    prepare_folder,
    remove_own_pageranks,
    remove_unfinished,
    scores_of,
    with_baselines,
    write_run,
)
from graphkin.errors import SettingError, check_choice, check_whole
from graphkin.evaluation.evaluate import MOST_SPLITS, PROTOCOLS, Scores, evaluate
from graphkin.evaluation.evaluate import baselines as baseline_rows
from graphkin.graphs.datasets import DATASETS, DEFAULT
from graphkin.graphs.readers import open_graph
from graphkin.methods.presets import NAMES
from graphkin.support.parallel import LostError, joined
from graphkin.support.signals import status, terminated
from graphkin.training.embeddings import FORMATS, read_embeddings, write_embeddings
from graphkin.training.fit import check_usable, device_named, fit, resolve
from graphkin.training.fitted import load
from graphkin.training.plans import parse_memory, plan_for


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
            check_whole("splits", splits, at_least=1, at_most=MOST_SPLITS)
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
            try:
                score = None if terminated() else lambda rows: scores_of(fitted, opened, rows, splits, seed, baselines)
                record = write_run(folder, fitted, opened, score, kind)
            except BaseException:
                if (folder / "run.json").exists():
                    print(f"graphkin: not scored; model and embeddings are in {folder}.", file=sys.stderr)
                raise
            if checkpoint is not None and not fitted.interrupted:
                remove_unfinished(folder)
            if as_json:
                print_json({"out": str(folder), **record})
            else:
                print_fit(console, opened, fitted, record, folder / f"embeddings.{kind}")
                if checkpoint is not None and fitted.interrupted:
                    console.print("the same command goes on from here")
    if fitted.interrupted and among.first:  # a process that failed early would have torchrun end the one that writes
        raise typer.Exit(status())


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


def datasets_command(data_root: DataRootOption = None, as_json: JsonOption = False) -> None:
    """List the graphs that can be used by name, and whether they are on this machine."""
    if as_json:
        entries = [vars(dataset) | {"state": dataset.state(data_root)} for dataset in DATASETS.values()]
        print_json({"datasets": entries})
        return
    console.print(dataset_table(data_root))


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
