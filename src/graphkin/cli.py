"""The command line. No logic here: each command reads its arguments, calls the library and prints."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from graphkin import __version__
from graphkin.datasets import DATASETS, DEFAULT, open_graph
from graphkin.errors import InputError, SettingError, check_whole
from graphkin.evaluation import Scores, evaluate, own_accuracy
from graphkin.fitted import Fitted, load
from graphkin.graphs import Graph
from graphkin.presets import NAMES
from graphkin.runs import check_file, default_folder, prepare_folder, read_embeddings, write_embeddings, write_run
from graphkin.training import check_usable, device_named, fit, resolve

app = typer.Typer(
    name="graphkin",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Node embeddings from a graph without labels: similar nodes attract, dissimilar nodes repel.",
)
console = Console(highlight=False)
INTERRUPTED = 130

GraphArgument = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A dataset's name (see [b]graphkin datasets[/b]) or a .npz file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to standard error.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace results that are there already.")]
SeedOption = Annotated[int, typer.Option(help="The one source of all randomness.")]
SplitsOption = Annotated[int, typer.Option(help="How many random splits to score on.")]


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
    splits: SplitsOption = 5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train on a graph and write embeddings, model and run file.

    Without GRAPH, the bundled Cora. Where the graph has labels, the embeddings are scored; labels never train them
    (graph-mlp aside). Ctrl-C stops after the current epoch, keeps what was learned, and exits with status 130.

    Examples:

      graphkin fit

      graphkin fit --method grace --seed 1 --out runs/grace-1

      graphkin fit my-graph.npz --epochs 500 --set beta=0.5 --set drop_edges=0.1,0.3

      graphkin fit --set tau_pos=0.1 --set tau_neg=0.1 --json > result.json
    """
    opened = open_graph(graph)
    chosen = resolve(method, opened, preset).configure(**parse_settings(settings or []))
    if epochs is not None:
        chosen = chosen.configure(epochs=epochs)
    check_usable(opened, chosen)
    check_whole("splits", splits, at_least=1)
    check_whole("seed", seed, at_least=0)
    device_named(device)
    folder = prepare_folder(out or default_folder(opened, chosen.name, seed), overwrite=overwrite)
    style = "none" if quiet else "visible"
    fitted = fit(opened, chosen, seed=seed, device=device, progress=style)
    embeddings = fitted.embed(opened)
    scores = scores_of(fitted, opened, embeddings, splits, seed)
    record = write_run(folder, fitted, opened, embeddings, scores)
    if as_json:
        print_json({"out": str(folder), **record})
    else:
        print_fit(opened, fitted, scores, folder)
    if fitted.interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command("embed")
def embed_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.graphkin that fit wrote.")],
    graph: GraphArgument,
    out: Annotated[Path, typer.Option(help="The .npy file to write.")] = Path("embeddings.npy"),
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Embed a graph with a trained model. The graph may be another one with the same features.

    Example:

      graphkin embed runs/cora-bundled-graceplus-seed0/model.graphkin other-graph.npz --out other.npy
    """
    fitted = load(model)
    opened = open_graph(graph)
    target = check_file(out, overwrite=overwrite)
    embeddings = fitted.embed(opened)
    write_embeddings(target, embeddings)
    if as_json:
        print_json({"out": str(target), "nodes": embeddings.size(0), "dimensions": embeddings.size(1)})
    else:
        console.print(f"{target}: {embeddings.size(0)} nodes, {embeddings.size(1)} dimensions", soft_wrap=True)


@app.command("evaluate")
def evaluate_command(
    embeddings: Annotated[Path, typer.Argument(metavar="EMBEDDINGS", help="A .npy file with one row a node.")],
    graph: GraphArgument = DEFAULT,
    protocol: Annotated[str, typer.Option(help="grace: logistic regression on random 10/10/80 splits.")] = "grace",
    splits: SplitsOption = 10,
    seed: SeedOption = 0,
    train: Annotated[float, typer.Option(help="Share of the nodes to train on.")] = 0.1,
    val: Annotated[float, typer.Option(help="Share of the nodes to choose C on.")] = 0.1,
    as_json: JsonOption = False,
) -> None:
    """Score embeddings against the labels of a graph.

    Example:

      graphkin evaluate runs/cora-bundled-graceplus-seed0/embeddings.npy cora-bundled --splits 20
    """
    opened = open_graph(graph)
    scores = evaluate(read_embeddings(embeddings), opened, protocol=protocol, splits=splits, seed=seed, train=train, val=val)
    if as_json:
        print_json({"graph": opened.name, **scores.as_dict()})
    else:
        console.print(f"accuracy {scores}, protocol {protocol}")


@app.command("datasets")
def datasets_command(as_json: JsonOption = False) -> None:
    """List the graphs that can be used by name."""
    if as_json:
        print_json({"datasets": [vars(dataset) for dataset in DATASETS.values()]})
        return
    table = Table("name", "nodes", "edges", "features", "classes", "source", "licence", box=None)
    for entry in DATASETS.values():
        counts = (f"{count:,}" for count in (entry.nodes, entry.edges, entry.features, entry.classes))
        table.add_row(entry.name, *counts, entry.source, entry.licence)
    console.print(table)


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


def scores_of(fitted: Fitted, graph: Graph, embeddings: Any, splits: int, seed: int) -> dict[str, Any]:
    """What the labels say, or why nothing can be said."""
    try:
        scores = evaluate(embeddings, graph, splits=splits, seed=seed).as_dict()
        if fitted.method.needs_labels and graph.test_mask is not None:
            scores["own_classifier_test_accuracy"] = own_accuracy(fitted, graph)
        return scores
    except InputError as reason:
        return {"not_scored": str(reason)}


def print_fit(graph: Graph, fitted: Fitted, scores: dict[str, Any], folder: Path) -> None:
    console.print(
        f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
        + (f" ({', '.join(graph.notes)})" if graph.notes else "")
    )
    state = "stopped by Ctrl-C after" if fitted.interrupted else "trained for"
    console.print(
        f"{fitted.method.name}: {state} {len(fitted.losses)} epochs in {fitted.seconds['train']:.1f} s, "
        f"loss {fitted.losses[-1]:.4f}"
    )
    if "not_scored" in scores:
        console.print(f"not scored: {scores['not_scored']}", soft_wrap=True)
    else:
        result = Scores(scores["protocol"], tuple(scores["test_accuracies"]), tuple(scores["val_accuracies"]))
        console.print(f"accuracy {result}, protocol {result.protocol}")
    if "own_classifier_test_accuracy" in scores:
        console.print(f"accuracy {scores['own_classifier_test_accuracy']:.2f} %, own classifier on the test mask")
    console.print(f"wrote {folder}/embeddings.npy, model.graphkin, run.json", soft_wrap=True)


def print_json(record: dict[str, Any]) -> None:
    print(json.dumps(record))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"graphkin {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Exit status: 0 it worked, 2 the user's mistake in one line, 1 a failure of ours."""
    try:
        status = app(arguments, prog_name="graphkin", standalone_mode=False)
    except InputError as error:
        return _complain(str(error))
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
