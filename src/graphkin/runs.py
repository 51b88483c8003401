"""The folder a run leaves behind: embeddings.npy, model.graphkin, run.json."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import OutputError
from graphkin.files import check_writable, write_whole
from graphkin.fitted import Fitted
from graphkin.graphs import Graph

FILES = ("embeddings.npy", "model.graphkin", "run.json")


def prepare_folder(folder: Path, *, overwrite: bool = False) -> Path:
    """Make the folder and prove, before any training, that results can be written there without losing others."""
    check_writable(folder)
    present = [name for name in FILES if (folder / name).exists()]
    if present and not overwrite:
        raise OutputError(
            f"the output folder {folder} already holds a run ({', '.join(present)}): choose another --out, or add --overwrite."
        )
    return folder


def check_file(path: Path, *, overwrite: bool = False) -> Path:
    """The same for a single output file."""
    if path.is_dir():
        raise OutputError(f"the output must be a file, found the folder {path}.")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already: choose another --out, or add --overwrite.")
    check_writable(path.parent)
    return path


def default_folder(graph: Graph, method: str, seed: int) -> Path:
    """runs/GRAPH-METHOD-seedN, with a number behind it if that is taken."""
    name = f"{graph.name}-{method}-seed{seed}".replace("+", "plus").replace("(", "-").replace(")", "")
    candidates = (Path("runs") / (name if i == 1 else f"{name}-{i}") for i in range(1, 10_000))
    return next(folder for folder in candidates if not folder.exists())


def write_run(folder: Path, fitted: Fitted, graph: Graph, embeddings: Tensor, scores: dict[str, Any]) -> dict[str, Any]:
    """Write all three files and return what run.json holds."""
    record = run_record(fitted, graph, scores)
    fitted.save(folder / "model.graphkin")
    write_embeddings(folder / "embeddings.npy", embeddings)
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
        "epochs": len(fitted.losses),
        "interrupted": fitted.interrupted,
        "losses": list(fitted.losses),
        **environment(),
    }


def environment() -> dict[str, Any]:
    """Where and with what a number was made."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("graphkin", "torch", "torch_geometric", "numpy", "scikit-learn")},
        },
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def write_embeddings(path: Path, embeddings: Tensor) -> None:
    def write(file: Path) -> None:
        with file.open("wb") as stream:
            np.save(stream, embeddings.cpu().numpy(), allow_pickle=False)

    write_whole(path, write)


def write_json(path: Path, record: dict[str, Any]) -> None:
    write_whole(path, lambda file: file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8"))


def read_embeddings(path: Path) -> np.ndarray:
    if not path.is_file():
        raise OutputError(f"no embeddings at {path}.")
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise OutputError(f"{path} is not a readable .npy file of numbers: {error}") from error


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
