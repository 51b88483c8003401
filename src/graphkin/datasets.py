"""Graphs by name: the eight of the paper, read from PyTorch Geometric's raw files, and a Cora that ships with graphkin.

A dataset is looked for in the data root that is given, in $GRAPHKIN_DATA, then in the user's cache folder, and downloaded to
the cache if it is nowhere. Raw files are read where they lie, so a root may be read-only and may be one that PyTorch Geometric
made. After reading, counts are checked against what is known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch

from graphkin.errors import GraphError, unknown
from graphkin.graphs import Graph

DEFAULT = "cora-bundled"
VARIABLE = "GRAPHKIN_DATA"


@dataclass(frozen=True)
class Dataset:
    name: str
    nodes: int
    edges: int
    """undirected, without self loops"""
    features: int
    classes: int
    source: str
    licence: str
    folder: str = ""
    """where PyTorch Geometric keeps it below a root that holds several of its datasets"""
    files: dict[str, str] = field(default_factory=dict)
    """raw files and, for those that only unpickling can read, their SHA-256"""

    def raw_folder(self, data_root: str | Path | None = None) -> Path | None:
        """The folder with all raw files, if there is one."""
        places = [self.folder, self.folder.partition("/")[2] or self.folder, ""]
        for root in data_roots(data_root):
            for place in places:
                raw = root / place / "raw"
                if self.files and all((raw / file).is_file() for file in self.files):
                    return raw
        return None

    def state(self, data_root: str | Path | None = None) -> str:
        if not self.files:
            return "bundled"
        return "to download" if self.raw_folder(data_root) is None else "cached"


def load_dataset(name: str, data_root: str | Path | None = None) -> Graph:
    """A dataset by name, downloaded if it is not on this machine."""
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    if name == DEFAULT:
        return bundled_cora()
    if data_root is not None and not Path(data_root).is_dir():
        raise GraphError(f"the data root must be a folder, found nothing at {data_root}.")
    dataset = DATASETS[name]
    raw = dataset.raw_folder(data_root) or _download(dataset)
    graph = replace(_READERS[dataset.folder.partition("/")[0]](dataset, raw), name=name, notes=())
    _check_counts(dataset, graph, raw)
    return graph


def bundled_cora() -> Graph:
    """Cora (2708 papers, 5278 citations, 1433 words, 7 classes), shipped with graphkin.

    Its masks are a split of Planetoid's sizes, drawn once; Planetoid's own split cannot be told from these files.
    """
    with resources.as_file(resources.files("graphkin").joinpath("data", "cora.npz")) as path:
        return replace(Graph.from_npz(path, name=DEFAULT), notes=())


def data_roots(data_root: str | Path | None = None) -> Iterator[Path]:
    if data_root is not None:
        yield Path(data_root)
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE])
    yield cache_folder()


def cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("graphkin") / "data"


def _download(dataset: Dataset) -> Path:
    """Let PyTorch Geometric's own class fetch the raw files into the cache."""
    import torch_geometric.datasets

    kind, _, name = dataset.folder.partition("/")
    root = cache_folder() / kind
    raw = root / name / "raw"
    build: Callable[..., Any] = getattr(torch_geometric.datasets, kind)
    arguments: dict[str, Any] = {"name": name} if name else {"is_undirected": True}
    try:
        with contextlib.redirect_stdout(sys.stderr):
            build(str(root), **arguments)
        if all((raw / file).is_file() for file in dataset.files):
            return raw
        reason = "the download is not complete"
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise GraphError(
        f"{dataset.name} is not on this machine and cannot be downloaded ({reason}). Put {', '.join(dataset.files)} into "
        f"{raw}, or name the folder that PyTorch Geometric keeps them in with --data-root or ${VARIABLE}."
    )


def _check_counts(dataset: Dataset, graph: Graph, raw: Path) -> None:
    wanted = (dataset.nodes, dataset.edges, dataset.features, dataset.classes)
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    if wanted != found:
        raise GraphError(
            f"{dataset.name} must have {wanted} nodes, edges, features and classes, found {found}: the files in {raw} are not "
            "the published ones."
        )


def _planetoid(dataset: Dataset, raw: Path) -> Graph:
    """These files are pickles, so only the published ones are opened."""
    from torch_geometric.io import read_planetoid_data

    for file, digest in dataset.files.items():
        if hashlib.sha256((raw / file).read_bytes()).hexdigest() != digest:
            raise GraphError(f"{raw / file} is not the published file (its SHA-256 differs), and is not opened.")
    return Graph.from_data(read_planetoid_data(str(raw), dataset.name))


def _archive(dataset: Dataset, raw: Path) -> Graph:
    """Compressed rows in a NumPy archive; features are words, present or not."""
    path = raw / next(iter(dataset.files))
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            attributes, adjacency = (
                scipy.sparse.csr_matrix(
                    tuple(archive[f"{kind}_{part}"] for part in ("data", "indices", "indptr")), archive[f"{kind}_shape"]
                )
                for kind in ("attr", "adj")
            )
            labels = archive["labels"]
    except (ValueError, OSError, KeyError, EOFError) as error:
        raise GraphError(f"{path} is not the archive of {dataset.name}: {error}") from error
    edges = adjacency.tocoo()
    return Graph.from_arrays((attributes > 0).astype(np.float32), np.stack([edges.row, edges.col]), labels)


def _wikics(dataset: Dataset, raw: Path) -> Graph:
    return read_wikics(raw / "data.json")


def read_wikics(path: Path) -> Graph:
    """Wiki-CS's own JSON: features, labels, links, and 20 public splits that share one test set."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        x = torch.tensor(data["features"], dtype=torch.float32)
        links: list[list[int]] = data["links"]
        source = torch.repeat_interleave(torch.arange(len(links)), torch.tensor([len(targets) for targets in links]))
        target = torch.tensor([j for targets in links for j in targets], dtype=torch.long)
        train, val = (torch.tensor(data[key], dtype=torch.bool).T for key in ("train_masks", "val_masks"))
        test = torch.tensor(data["test_mask"], dtype=torch.bool)
        labels = torch.tensor(data["labels"], dtype=torch.long)
    except (ValueError, KeyError, TypeError, OSError, RuntimeError) as error:
        raise GraphError(f"{path} is not a Wiki-CS file: {type(error).__name__}: {error}") from error
    edges = torch.stack([source, target])
    return Graph.from_arrays(x, edges, labels, train_mask=train, val_mask=val, test_mask=test, name="wikics")


_READERS: dict[str, Callable[[Dataset, Path], Graph]] = {
    "Planetoid": _planetoid,
    "Amazon": _archive,
    "Coauthor": _archive,
    "CitationFull": _archive,
    "WikiCS": _wikics,
}


def _known() -> dict[str, Dataset]:
    text = resources.files("graphkin").joinpath("data", "datasets.toml").read_text(encoding="utf-8")
    return {name: Dataset(name=name, **entry) for name, entry in tomllib.loads(text).items()}


DATASETS = _known()
