"""The folder a run leaves behind: embeddings.npy, model.graphkin, run.json."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphkin.datasets import DATASETS, DEFAULT
from graphkin.errors import InputError, OutputError
from graphkin.evaluation import Scores, collapse, evaluate, own_accuracy
from graphkin.evaluation import baselines as baseline_rows
from graphkin.files import check_writable, read_array, read_json, reading, remove_leftovers, write_whole
from graphkin.fitted import Fitted
from graphkin.graphs import Graph
from graphkin.parallel import peers
from graphkin.synthetic import NAMED
from graphkin.training import PAGERANKS

FORMATS = ("npy", "parquet", "csv")
CHECKPOINT = "checkpoint.graphkin"
UNFINISHED = (CHECKPOINT, CHECKPOINT + PAGERANKS)
NOT_SCORED = "the embeddings were written, and nothing was scored after that; graphkin evaluate scores them."
FILES = (*(f"embeddings.{kind}" for kind in FORMATS), "model.graphkin", "run.json")


def prepare_folder(folder: Path, *, overwrite: bool = False, go_on: bool = False) -> Path:
    """Make the folder and prove, before any training, that results can be written there without losing others.

    With ``go_on`` a folder whose run was cut off is taken as it is; ``overwrite`` starts anew.
    """
    check_writable(folder)
    if overwrite:
        remove_unfinished(folder)
    if overwrite or (go_on and _was_cut_off(folder)):
        return folder
    if _was_cut_off(folder):
        raise OutputError(
            f"the output folder {folder} holds a run that was cut off: "
            "add --checkpoint-every to go on with it, or --overwrite to start anew."
        )
    present = [name for name in FILES if (folder / name).exists()]
    if present:
        raise OutputError(
            f"the output folder {folder} already holds a run ({', '.join(present)}): choose another --out, or add --overwrite."
        )
    return folder


def check_file(path: Path, *, overwrite: bool = False) -> Path:
    """The same for a single output file."""
    if path.is_dir():
        raise OutputError(f"the output must be a file, found the folder {path}.")
    if path.suffix[1:] not in FORMATS:
        raise OutputError(f"the output must end in {', '.join('.' + kind for kind in FORMATS)}, found {path.name}.")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already: choose another --out, or add --overwrite.")
    check_writable(path.parent)
    return path


def default_folder(graph: Graph, method: str, seed: int, *, go_on: bool = False) -> Path:
    """runs/GRAPH-METHOD-seedN, with a number behind it if that is taken; with ``go_on`` one whose run was cut off is not."""
    name = f"{graph.name}-{method}-seed{seed}".replace("+", "plus").replace("(", "-").replace(")", "")
    for number in range(1, 10_000):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not folder.exists() or (go_on and _was_cut_off(folder)):
            return folder
        remove_leftovers(folder)
    raise OutputError(f"there are 9,999 folders runs/{name} already: choose another --out.")


def _was_cut_off(folder: Path) -> bool:
    """Killed, or stopped by Ctrl-C: a run that ended has no checkpoint and no part of a similarity."""
    return any((folder / name).exists() for name in UNFINISHED)


def remove_own_pageranks(folder: Path) -> None:
    """Those of this process, which may be on a disk that the first one does not see."""
    shutil.rmtree(folder / UNFINISHED[1] / peers().label, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    for path in (folder / name for name in UNFINISHED):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def scores_of(fitted: Fitted, graph: Graph, embeddings: Any, splits: int, seed: int, baselines: bool) -> dict[str, Any]:
    """What the labels say, or why nothing can be said.

    A method that was trained with labels is scored by its own classifier on the test mask alone: random splits would test
    it on nodes whose labels it has seen.
    """
    try:
        if fitted.method.needs_labels:
            values: dict[str, tuple[float, ...]] = {"accuracy": (own_accuracy(fitted, graph),)}
            return with_baselines({fitted.method.name: Scores("own classifier on the test mask", values)})
        scores = {fitted.method.name: evaluate(embeddings, graph, splits=splits, seed=seed)}
        if baselines:
            rows = baseline_rows(graph, fitted.method, seed)
            scores |= {name: evaluate(value, graph, splits=splits, seed=seed) for name, value in rows.items()}
        return with_baselines(scores)
    except InputError as reason:
        return {"not_scored": str(reason)}


def with_baselines(scores: dict[str, Scores]) -> dict[str, Any]:
    (name, main), *others = scores.items()
    return {**main.as_dict(), "of": name, "baselines": {row: value.as_dict() for row, value in others}}


def write_run(
    folder: Path, fitted: Fitted, graph: Graph, score: Callable[[Tensor], dict[str, Any]] | None = None, kind: str = "npy"
) -> dict[str, Any]:
    """Write model, embeddings and run.json, each as soon as it is known, and return what run.json holds.

    Scores come last, and into run.json: whatever happens while they are computed, the rest is on the disk.
    """
    (folder / "run.json").unlink(missing_ok=True)
    fitted.save(folder / "model.graphkin")
    embeddings = fitted.embed(graph)
    written = folder / f"embeddings.{kind}"
    write_embeddings(written, embeddings, graph.ids)
    of_earlier_runs = {f"embeddings.{one}" for one in FORMATS if one != kind}
    if kind != "npy" or graph.ids is None:
        of_earlier_runs.add("embeddings.ids.csv")
    for name in of_earlier_runs:
        (folder / name).unlink(missing_ok=True)
    record = run_record(fitted, graph, {"not_scored": NOT_SCORED})
    write_json(folder / "run.json", record)
    if score is not None:
        record |= {"warning": collapse(embeddings, fitted, graph), "scores": score(embeddings)}
        write_json(folder / "run.json", record)
    return record


def run_record(fitted: Fitted, graph: Graph, scores: dict[str, Any]) -> dict[str, Any]:
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
        },
        "scores": scores,
        "seconds": fitted.seconds,
        "kernel": fitted.kernel,
        "epochs": len(fitted.losses),
        "interrupted": fitted.interrupted,
        "losses": list(fitted.losses),
        "warning": None,
        **environment(),
    }


def environment() -> dict[str, Any]:
    """Where and with what a number was made."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("graphkin", "torch", "torch_geometric", "triton", "numpy", "scikit-learn")},
        },
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


@functools.cache
def commit() -> str | None:
    """$GRAPHKIN_COMMIT, or what git says of graphkin's own source, where that is a checkout."""
    named = os.environ.get("GRAPHKIN_COMMIT")
    if named:
        return named
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        return git("describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return None


def write_embeddings(path: Path, embeddings: Tensor, ids: np.ndarray | None = None) -> None:
    """As the suffix says: .parquet and .csv with a column of ids, .npy with the ids of its rows in a file beside it."""
    if not torch.isfinite(embeddings).all():
        raise OutputError(f"embeddings must be finite, found NaN or infinite values: {path} is not written.")
    if path.suffix in (".parquet", ".csv"):
        from graphkin.tables import write_table

        write_table(path, embeddings, ids)
        return

    def write(file: Path) -> None:
        with file.open("wb") as stream:
            np.save(stream, embeddings.cpu().numpy(), allow_pickle=False)

    if path.exists():
        path.with_suffix(".ids.csv").unlink(missing_ok=True)
    write_whole(path, write)
    if ids is not None:
        text = "".join(f"{line}\n" for line in ["id", *map(_quoted, ids)])
        write_whole(path.with_suffix(".ids.csv"), lambda file: file.write_text(text, encoding="utf-8"))


def write_json(path: Path, record: dict[str, Any] | list[dict[str, Any]]) -> None:
    write_whole(path, lambda file: file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8"))


def read_embeddings(path: Path, ids: np.ndarray | None = None) -> np.ndarray:
    """A .npy file, or the columns e0, e1, ... of a table, in the order of ``ids`` where the table has other rows first."""
    if not path.is_file():
        raise OutputError(f"no embeddings at {path}.")
    if path.suffix.lower() in (".parquet", ".csv", ".tsv"):
        from graphkin.tables import read_embedding_table

        with reading(path, "is not a readable table of embeddings", OutputError):
            return read_embedding_table(path, ids)
    with reading(path, "is not a readable .npy file of numbers", OutputError):
        rows = read_array(path)
    beside = path.with_suffix(".ids.csv")
    if ids is None or not beside.is_file():
        return rows
    from graphkin.tables import in_order, read_ids

    with reading(beside, "is not a readable table of ids", OutputError):
        return in_order(path, rows, read_ids(beside), ids)


def graph_of_run(embeddings: Path) -> str:
    """The dataset that the run file beside the embeddings names; the bundled Cora if there is no run file."""
    path = embeddings.parent / "run.json"
    if not path.is_file():
        return DEFAULT
    with reading(path, "was not written by graphkin fit, or is damaged", OutputError):
        name = read_json(path)["graph"]["name"]
        if not isinstance(name, str):
            raise ValueError("its graph has no name")
    if name not in DATASETS and not NAMED.fullmatch(name):
        raise OutputError(
            f"say which graph this is about: {embeddings.parent} was made from {name!r}, which is no dataset's name."
        )
    return name


def _quoted(name: object) -> str:
    text = str(name)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
