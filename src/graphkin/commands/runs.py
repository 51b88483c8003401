"""The folder a run leaves behind: embeddings.npy, model.graphkin, run.json."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from graphkin.commands.held_out import FILE as HELD_OUT_FILE
from graphkin.commands.held_out import write_held_out
from graphkin.errors import InputError, OutputError
from graphkin.evaluation.baselines import scored_baselines
from graphkin.evaluation.collapse import collapse
from graphkin.evaluation.evaluate import evaluate
from graphkin.evaluation.free import BEST_FREE, advice
from graphkin.evaluation.own_classifier import own_accuracy
from graphkin.evaluation.scores import Scores
from graphkin.graphs.graph import Graph
from graphkin.support.environment import environment
from graphkin.support.files import check_writable, remove_leftovers, write_json
from graphkin.support.parallel import peers
from graphkin.training.embeddings import FORMATS, write_embeddings
from graphkin.training.fitted import Fitted
from graphkin.training.plan import PAGERANKS

CHECKPOINT = "checkpoint.graphkin"
UNFINISHED = (CHECKPOINT, CHECKPOINT + PAGERANKS)
NOT_SCORED = "the run ended after the embeddings were written; graphkin evaluate scores them."
FILES = (*(f"embeddings.{kind}" for kind in FORMATS), "model.graphkin", "run.json", HELD_OUT_FILE)


def prepare_folder(folder: Path, *, overwrite: bool = False, resume: bool = False) -> Path:
    """Make the folder and prove, before any training, that results can be written there without losing others.

    ``resume`` takes a folder whose run was cut off as it is; ``overwrite`` starts again.
    """
    check_writable(folder)
    if overwrite:
        remove_unfinished(folder)
    if overwrite or (resume and _was_cut_off(folder)):
        return folder
    if _was_cut_off(folder):
        raise OutputError(
            f"the output folder {folder} holds a run that was cut off: "
            "add --checkpoint-every to resume it, or --overwrite to start again."
        )
    present = [name for name in FILES if (folder / name).exists()]
    if present:
        raise OutputError(
            f"the output folder {folder} already holds a run ({', '.join(present)}): choose another --out, or add --overwrite."
        )
    return folder


def check_file(path: Path, *, overwrite: bool = False, suffixes: Sequence[str] = FORMATS) -> Path:
    """The same for a single output file."""
    if path.is_dir():
        raise OutputError(f"the output must be a file, found the folder {path}.")
    if path.suffix[1:] not in suffixes:
        raise OutputError(f"the output must end in {', '.join('.' + kind for kind in suffixes)}, found {path.name}.")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already: choose another --out, or add --overwrite.")
    check_writable(path.parent)
    return path


def default_folder(graph: Graph, method: str, seed: int, *, resume: bool = False) -> Path:
    """runs/GRAPH-METHOD-seedN, with a number appended if that is taken; ``resume`` takes one whose run was cut off."""
    name = f"{graph.name}-{method}-seed{seed}".replace("+", "plus").replace("(", "-").replace(")", "")
    for number in range(1, 10_000):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not folder.exists() or (resume and _was_cut_off(folder)):
            return folder
        remove_leftovers(folder)
    raise OutputError(f"there are 9,999 folders runs/{name} already: choose another --out.")


def _was_cut_off(folder: Path) -> bool:
    """Killed, or stopped by Ctrl-C: a finished run leaves no checkpoint and no part of a similarity."""
    return any((folder / name).exists() for name in UNFINISHED)


def remove_own_pageranks(folder: Path) -> None:
    """Those of this process, which may be on a disk that the first process does not see."""
    shutil.rmtree(folder / UNFINISHED[1] / peers().label, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    for path in (folder / name for name in UNFINISHED):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def scores_of(fitted: Fitted, graph: Graph, embeddings: Any, splits: int, seed: int, baselines: bool) -> dict[str, Any]:
    """The scores against the graph's labels, or why there are none.

    A method that was trained with labels is scored by its own classifier on the test mask alone: random splits would test
    it on nodes whose labels it has seen.
    """
    try:
        if fitted.method.needs_labels:
            values: dict[str, tuple[float, ...]] = {"accuracy": (own_accuracy(fitted, graph),)}
            return with_baselines({fitted.method.name: Scores("own classifier on the test mask", values)})

        def score(rows: Any) -> Scores:
            return evaluate(rows, graph, splits=splits, seed=seed)

        scores = {fitted.method.name: score(embeddings)}
        if baselines:
            scores |= scored_baselines(score, graph, fitted.method, seed)
        return with_baselines(scores)
    except InputError as reason:
        return {"not_scored": str(reason)}


def links_of(fitted: Fitted, graph: Graph, embeddings: Any, baselines: bool) -> dict[str, Any]:
    """How well held-out edges are found again."""

    def score(rows: Any) -> Scores:
        return evaluate(rows, graph, protocol="links")

    scores = {fitted.method.name: score(embeddings)}
    if baselines:
        scores |= scored_baselines(score, graph, fitted.method, fitted.seed)
    return with_baselines(scores)


def with_baselines(scores: dict[str, Scores]) -> dict[str, Any]:
    """As run.json has it: the scores of the first, and of the others as its baselines; advice where one of them is better."""
    (name, main), *others = scores.items()
    found = {**main.as_dict(), "of": name, "baselines": {row: value.as_dict() for row, value in others}}
    line = advice(main, scores[BEST_FREE]) if BEST_FREE in scores else None
    return found if line is None else {**found, "advice": line}


def write_run(
    folder: Path,
    fitted: Fitted,
    graph: Graph,
    score: Callable[[Tensor], dict[str, Any]] | None = None,
    kind: str = "npy",
    source: dict[str, Any] | None = None,
    links: Callable[[Tensor], dict[str, Any]] | None = None,
    blocks: Iterable[Tensor] | None = None,
) -> dict[str, Any]:
    """Write model, embeddings and run.json, each as soon as it is known, and return what run.json holds.

    Scores are added to run.json last: whatever happens while they are computed, the rest is on the disk.
    ``source`` says where the graph came from; ``links`` are scores by held-out edges, of a graph that has some; ``blocks`` are
    the embeddings of the graph, where they are known already.
    """
    (folder / "run.json").unlink(missing_ok=True)
    fitted.save(folder / "model.graphkin")
    rows = fitted.embed_in_blocks(graph) if blocks is None else blocks
    embeddings = write_embeddings(folder / f"embeddings.{kind}", rows, graph.num_nodes, graph.ids)
    write_held_out(folder, graph)
    of_earlier_runs = {f"embeddings.{one}" for one in FORMATS if one != kind}
    if kind != "npy" or graph.ids is None:
        of_earlier_runs.add("embeddings.ids.csv")
    for name in of_earlier_runs:
        (folder / name).unlink(missing_ok=True)
    record = run_record(fitted, graph, {"not_scored": NOT_SCORED}, source)
    write_json(folder / "run.json", record)
    if score is not None:
        record |= {"warning": collapse(embeddings, fitted, graph), "scores": score(embeddings)}
        if links is not None:
            record["links"] = links(embeddings)
        write_json(folder / "run.json", record)
    return record


def run_record(fitted: Fitted, graph: Graph, scores: dict[str, Any], source: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "method": fitted.method.name,
        "settings": fitted.method.settings(),
        "seed": fitted.seed,
        "graph": {
            "name": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "notes": list(graph.notes),
            "content": graph.content,
            **({} if source is None else {"source": source}),
            **({} if graph.held_out is None else {"held_out": graph.held_out.edges.size(1)}),
            "columns": None if fitted.recipe is None else str(fitted.recipe),
        },
        "scores": scores,
        "seconds": fitted.seconds,
        "kernel": fitted.kernel,
        "execution": fitted.execution,
        "own_similarity": fitted.own_similarity,
        "epochs": len(fitted.losses),
        "interrupted": fitted.interrupted,
        "losses": list(fitted.losses),
        "warning": None,
        **environment(),
    }
