"""Graphs by name: the eight of the paper, read from their published files, and a Cora that ships with graphkin.

A dataset is looked for in the given data root, in $GRAPHKIN_DATA and in the user's cache folder, and otherwise downloaded to
the cache. Raw files are read in place, so a root may be read-only and may be one that PyTorch Geometric made. A file's SHA-256
is checked before the file is read, and the graph's counts after that.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from graphkin.errors import GraphError, InputError, first_line, unknown
from graphkin.graphs import catalogue
from graphkin.graphs.catalogue import DATASETS, DEFAULT, VARIABLE, Dataset
from graphkin.graphs.graph import Graph
from graphkin.graphs.planetoid import read_planetoid
from graphkin.support.files import reading, write_whole

TIMEOUT = 60
"""Seconds without an answer after which a download has failed."""
LARGEST = 2**30
"""The most bytes that a downloaded file may have."""


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
    files = {file: _published(raw / file, digest) for file, digest in dataset.files.items()}
    graph = replace(_READERS[dataset.folder.partition("/")[0]](dataset, raw, files), name=name, notes=())
    _check_counts(dataset, graph, raw)
    return graph


def bundled_cora() -> Graph:
    """Cora (2708 papers, 5278 citations, 1433 words, 7 classes), shipped with graphkin.

    Its masks are a split with Planetoid's sizes, drawn once; Planetoid's own split cannot be recovered from these files.
    """
    with resources.as_file(resources.files("graphkin.graphs").joinpath("data", "cora.npz")) as path:
        return replace(Graph.from_npz(path, name=DEFAULT), notes=())


def _download(dataset: Dataset) -> Path:
    """Fetch those raw files that are not in the cache yet; none is opened here."""
    raw = catalogue.cache_folder() / dataset.folder / "raw"
    try:
        raw.mkdir(parents=True, exist_ok=True)
        for file, digest in dataset.files.items():
            if not (raw / file).is_file():
                _fetch(f"{dataset.url}/{file}", raw / file, digest)
    except (OSError, InputError) as error:
        files = ", ".join(dataset.files)
        raise GraphError(
            f"{dataset.name} is not on this machine and cannot be downloaded ({first_line(error)}). Put {files} into {raw}, "
            f"or name the folder that PyTorch Geometric keeps them in with --data-root or ${VARIABLE}."
        ) from error
    return raw


def _fetch(url: str, path: Path, digest: str) -> None:
    """Download a file, and keep it only if it is complete and the published one."""

    def write(temporary: Path) -> None:
        found = hashlib.sha256()
        with temporary.open("wb") as file:
            for chunk in _chunks(url):
                found.update(chunk)
                file.write(chunk)
        if digest and found.hexdigest() != digest:
            raise GraphError(f"{url} is not the published file: its SHA-256 differs")

    print(f"downloading {url}", file=sys.stderr, flush=True)
    write_whole(path, write)


def _chunks(url: str) -> Iterator[bytes]:
    size = 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            while chunk := answer.read(2**20):
                size += len(chunk)
                if size > LARGEST:
                    raise GraphError(f"{url} has more than {LARGEST:,} bytes")
                yield chunk
            if answer.headers.get("Content-Length", str(size)) != str(size):
                raise GraphError(f"{url} is not complete: {size:,} bytes came")
    except (OSError, http.client.HTTPException) as error:
        raise GraphError(first_line(error)) from error


def _published(path: Path, digest: str) -> bytes:
    """The content of a file, if it is the published one."""
    with reading(path, "cannot be read", GraphError):
        content = path.read_bytes()
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise GraphError(f"{path} is not the published file (its SHA-256 differs), and is not opened.")
    return content


def _check_counts(dataset: Dataset, graph: Graph, raw: Path) -> None:
    wanted = (dataset.nodes, dataset.edges, dataset.features, dataset.classes)
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    if wanted != found:
        raise GraphError(
            f"{dataset.name} must have {wanted} nodes, edges, features and classes, found {found}: the files in {raw} are not "
            "the published ones."
        )


def _planetoid(dataset: Dataset, raw: Path, files: dict[str, bytes]) -> Graph:
    return read_planetoid(raw, dataset.name, files)


def _archive(dataset: Dataset, raw: Path, files: dict[str, bytes]) -> Graph:
    """Compressed rows in a NumPy archive; features are words, present or not."""
    ((file, content),) = files.items()
    with reading(raw / file, f"is not the archive of {dataset.name}", GraphError):
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            attributes, adjacency = (
                scipy.sparse.csr_matrix(
                    tuple(archive[f"{kind}_{part}"] for part in ("data", "indices", "indptr")), archive[f"{kind}_shape"]
                )
                for kind in ("attr", "adj")
            )
            labels = archive["labels"]
        edges = adjacency.tocoo()
        return Graph.from_arrays((attributes > 0).astype(np.float32), np.stack([edges.row, edges.col]), labels)


def _wikics(dataset: Dataset, raw: Path, files: dict[str, bytes]) -> Graph:
    ((file, content),) = files.items()
    return read_wikics(raw / file, content)


def read_wikics(path: Path, content: bytes) -> Graph:
    """Wiki-CS's own JSON: features, labels, links, and 20 public splits that share one test set."""
    with reading(path, "is not a Wiki-CS file", GraphError):
        data = json.loads(content)
        x = torch.tensor(data["features"], dtype=torch.float32)
        links: list[list[int]] = data["links"]
        source = torch.repeat_interleave(torch.arange(len(links)), torch.tensor([len(targets) for targets in links]))
        target = torch.tensor([j for targets in links for j in targets], dtype=torch.long)
        train, val = (torch.tensor(data[key], dtype=torch.bool).T for key in ("train_masks", "val_masks"))
        test = torch.tensor(data["test_mask"], dtype=torch.bool)
        labels = torch.tensor(data["labels"], dtype=torch.long)
        edges = torch.stack([source, target])
        return Graph.from_arrays(x, edges, labels, train_mask=train, val_mask=val, test_mask=test, name="wikics")


_READERS: dict[str, Callable[[Dataset, Path, dict[str, bytes]], Graph]] = {
    "Planetoid": _planetoid,
    "Amazon": _archive,
    "Coauthor": _archive,
    "CitationFull": _archive,
    "WikiCS": _wikics,
}
