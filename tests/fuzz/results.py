"""Files that commands write: whole, finite, one row a node; and untouched by a command that was refused."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from safetensors.torch import load_file
from torch import Tensor

from graphkin import Clusters, Fitted, Graph, Links, Similar
from graphkin.evaluation.scores import Scores
from graphkin.similarity import NodeSimilarity
from graphkin.support.sparse import SparseMatrix

if TYPE_CHECKING:
    from tests.fuzz.promises import Said

EMBEDDINGS = ("embeddings.npy", "embeddings.csv", "embeddings.parquet")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check_unchanged(folder: Path, before: dict[Path, bytes], said: Said) -> None:
    """A refused command leaves results alone; checkpoints are for going on, and a store keeps the runs that worked."""
    after = contents(folder)
    _check_no_temporary(after)
    anew = "--overwrite" in said.words
    failed_runs = "runs failed" in said.stderr
    for path, data in before.items():
        if (anew and _unfinished(path, folder)) or (failed_runs and path.suffix == ".sqlite"):
            continue
        assert after.get(path) == data, f"a refused command changed or removed {path.name}: {said.stderr}"
    for path in set(after) - set(before):
        assert _unfinished(path, folder) or path.suffix == ".sqlite", f"a refused command wrote {path.name}: {said.stderr}"


def check_written(folder: Path, before: dict[Path, bytes]) -> None:
    after = contents(folder)
    _check_no_temporary(after)
    for path, data in after.items():
        if before.get(path) == data:
            continue
        assert data, f"{path.name} is empty"
        if path.suffix == ".json":
            strict_json(data.decode("utf-8"))
        elif path.suffix == ".graphkin":
            check_finite(load_file(path), path.name)
        elif path.stem.startswith("embeddings") and not path.name.endswith(".ids.csv"):
            check_finite(embeddings(path), path.name)


def check_run(folder: Path, *, nodes: int | None = None, must_score: bool = False) -> dict[str, Any]:
    """The folder that fit wrote, against what its run file says; ``nodes`` are the graph's, where they are known."""
    record: dict[str, Any] = strict_json((folder / "run.json").read_text(encoding="utf-8"))
    counted = record["graph"]["nodes"]
    assert nodes in (None, counted), f"run.json has {counted} nodes, the graph {nodes}"
    found = [folder / name for name in EMBEDDINGS if (folder / name).exists()]
    assert len(found) == 1, f"a run must leave one file of embeddings, found {[path.name for path in found]}"
    rows = embeddings(found[0])
    assert len(rows) == counted, f"{found[0].name} has {len(rows)} rows for {counted} nodes"
    beside = folder / "embeddings.ids.csv"
    if beside.exists():
        assert found[0].suffix == ".npy", f"{beside.name} stands beside {found[0].name}"
        with beside.open(encoding="utf-8", newline="") as file:
            named = sum(1 for _ in csv.reader(file)) - 1
        assert named == counted, f"{beside.name} has {named} ids for {counted} nodes"
    scores = record["scores"]
    assert ("accuracy" in scores) != ("not_scored" in scores), f"neither scored nor a reason why not: {scores}"
    assert not must_score or "accuracy" in scores, f"labels that allow it, and not scored: {scores}"
    return record


def embeddings(path: Path) -> np.ndarray:
    """The numbers of an embedding file, whichever its kind."""
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if path.suffix == ".parquet":
        table = pa.parquet.read_table(path)
    else:
        how: dict[str, Any] = {"parse_options": pa.csv.ParseOptions(newlines_in_values=True)}
        how["convert_options"] = pa.csv.ConvertOptions(column_types={"id": pa.string()})
        table = pa.csv.read_csv(path, **how)
    columns = [table.column(name).to_numpy() for name in table.column_names if name != "id"]
    return np.stack(columns, axis=1)


def strict_json(text: str) -> Any:
    """JSON as its standard has it, without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise AssertionError(f"not JSON: {error}\n{text[:500]}") from error


def check_finite(value: Any, what: str = "the result") -> None:
    """Whatever a call may return: all its numbers are finite."""
    if isinstance(value, dict):
        for name, entry in value.items():
            check_finite(entry, f"{what}: {name}")
    elif isinstance(value, list | tuple):
        for entry in value:
            check_finite(entry, what)
    elif isinstance(value, Graph):
        check_finite([value.x, value.edge_weight], "the graph")
    elif isinstance(value, Fitted):
        check_finite([value.losses, value.modules.state_dict()], "the model")
    elif isinstance(value, Scores):
        check_finite(value.values, "the scores")
    elif isinstance(value, SparseMatrix):
        check_finite(value.values, what)
    elif isinstance(value, NodeSimilarity):
        check_finite(value.block(torch.arange(min(value.num_nodes, 20), device=value.device)), what)
    elif isinstance(value, Similar | Clusters | Links):
        check_finite(vars(value), what)
    elif isinstance(value, Tensor):
        assert bool(torch.isfinite(value).all()), f"{what} is not finite"
    elif isinstance(value, np.ndarray):
        assert value.dtype.kind in "biuf" and bool(np.isfinite(value).all()), f"{what} is not finite"
    elif isinstance(value, float):
        assert math.isfinite(value), f"{what} is not finite"


def _unfinished(path: Path, folder: Path) -> bool:
    return any(part.startswith("checkpoint") for part in path.relative_to(folder).parts)


def _check_no_temporary(files: dict[Path, bytes]) -> None:
    hidden = [path.name for path in files if path.name.startswith(".")]
    assert not hidden, f"temporary files are left: {hidden}"
