from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from graphkin import datasets
from graphkin.datasets import DATASETS, load_dataset, read_wikics
from graphkin.errors import GraphError
from graphkin.evaluation import evaluate

COUNTS = {
    "cora": (2708, 10556, 1433, 7),
    "citeseer": (3327, 9104, 3703, 6),
    "pubmed": (19717, 88648, 500, 3),
    "dblp": (17716, 105734, 1639, 4),
    "photo": (7650, 238162, 745, 8),
    "computers": (13752, 491722, 767, 10),
    "cs": (18333, 163788, 6805, 15),
}


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("GRAPHKIN_DATA", raising=False)
    return tmp_path / "cache"


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_the_papers_graphs_load_from_a_read_only_root(name: str, data_root: Path, empty_cache: Path) -> None:
    graph = load_dataset(name, data_root)
    counts = (graph.num_nodes, graph.edge_index.size(1), graph.num_features, graph.num_classes)
    assert counts == COUNTS[name]
    assert DATASETS[name].state(data_root) == "cached"
    assert not empty_cache.exists()
    if DATASETS[name].folder.startswith("Planetoid"):
        (split,) = graph.public_splits
        assert split.sizes == {"train": 20 * graph.num_classes, "val": 500, "test": 1000}
    else:
        assert isinstance(graph.x, torch.Tensor) or set(graph.x.values.unique().tolist()) == {1.0}


@pytest.mark.data
def test_isolated_nodes_and_empty_rows_are_as_known(data_root: Path) -> None:
    for name, isolated in (("citeseer", 48), ("photo", 115), ("computers", 281)):
        graph = load_dataset(name, data_root)
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
        assert int((degree == 0).sum()) == isolated
    citeseer = load_dataset("citeseer", data_root)
    assert int((citeseer.x.to_dense().sum(dim=1) == 0).sum()) == 15


@pytest.mark.data
def test_planetoid_cora_is_the_bundled_one_in_another_order(data_root: Path) -> None:
    one, other = load_dataset("cora", data_root), load_dataset("cora-bundled")
    degrees = [torch.bincount(graph.edge_index[0]).sort().values for graph in (one, other)]
    assert torch.equal(degrees[0], degrees[1])
    words = [graph.x.to_dense().count_nonzero() for graph in (one, other)]
    assert words[0] == words[1]


@pytest.mark.data
def test_roots_in_every_layout_and_by_variable(data_root: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of all datasets, of one kind, or of the dataset itself."""
    for root in (data_root, data_root / "Planetoid", data_root / "Planetoid" / "Cora"):
        assert load_dataset("cora", root).num_nodes == 2708
    monkeypatch.setenv("GRAPHKIN_DATA", str(data_root))
    assert load_dataset("cora").num_nodes == 2708


@pytest.mark.data
def test_changed_files_are_refused(data_root: Path, tmp_path: Path, empty_cache: Path) -> None:
    for kind in ("Planetoid/Cora", "Amazon/Photo"):
        shutil.copytree(data_root / kind, tmp_path / kind, copy_function=shutil.copyfile)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o755)
    changed = tmp_path / "Planetoid/Cora/raw/ind.cora.graph"
    changed.write_bytes(changed.read_bytes() + b".")
    with pytest.raises(GraphError, match=r"ind\.cora\.graph is not the published file .* and is not opened"):
        load_dataset("cora", tmp_path)
    archive = tmp_path / "Amazon/Photo/raw/amazon_electronics_photo.npz"
    with np.load(archive) as given:
        arrays = dict(given)
    arrays["labels"] = np.zeros_like(arrays["labels"])
    np.savez(archive, **arrays)
    with pytest.raises(GraphError, match=r"photo must have \(7650, 119081, 745, 8\) .* found \(7650, 119081, 745, 1\)"):
        load_dataset("photo", tmp_path)
    archive.write_bytes(b"not an archive")
    with pytest.raises(GraphError, match="is not the archive of photo"):
        load_dataset("photo", tmp_path)


def test_a_failed_download_names_the_files_and_the_folder(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*arguments: object, **options: object) -> None:
        raise OSError("no network\nand more")

    for kind, name in (("Planetoid", "cora"), ("Amazon", "photo"), ("WikiCS", "wikics")):
        monkeypatch.setattr(f"torch_geometric.datasets.{kind}", offline)
        assert DATASETS[name].state() == "to download"
        with pytest.raises(GraphError) as caught:
            load_dataset(name)
        message = str(caught.value)
        assert f"{name} is not on this machine and cannot be downloaded (no network)" in message
        assert str(empty_cache / DATASETS[name].folder / "raw") in message
        assert all(file in message for file in DATASETS[name].files)


def test_a_download_goes_to_the_cache_and_is_found_again(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a stand-in for PyTorch Geometric's class that writes a small Wiki-CS file where the real one would."""
    calls = []

    def fetch(root: str, is_undirected: bool) -> None:
        calls.append(root)
        print("Downloading ...")
        write_wikics(Path(root) / "raw" / "data.json")

    monkeypatch.setattr("torch_geometric.datasets.WikiCS", fetch)
    small = DATASETS["wikics"].__class__(**{**vars(DATASETS["wikics"]), "nodes": 6, "edges": 6, "features": 3, "classes": 2})
    monkeypatch.setitem(DATASETS, "wikics", small)
    assert load_dataset("wikics").num_nodes == 6
    assert load_dataset("wikics").num_nodes == 6
    assert calls == [str(empty_cache / "WikiCS")]
    assert capsys.readouterr().out == ""


def write_wikics(path: Path, **changes: object) -> Path:
    """A small file of the form that Wiki-CS publishes, with 20 splits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    train = [[i == s % 2 or i == 3 for i in range(6)] for s in range(20)]
    val = [[i == 1 - s % 2 for i in range(6)] for s in range(20)]
    data = {
        "features": [[0.5, -0.25, float(i)] for i in range(6)],
        "labels": [0, 0, 0, 1, 1, 1],
        "links": [[1, 2], [2, 0], [2], [4], [5], [3]],
        "train_masks": train,
        "val_masks": val,
        "stopping_masks": val,
        "test_mask": [False, False, True, False, True, True],
    }
    path.write_text(json.dumps({key: value for key, value in {**data, **changes}.items() if value is not None}))
    return path


def test_wikics_and_its_twenty_splits(tmp_path: Path) -> None:
    graph = read_wikics(write_wikics(tmp_path / "data.json"))
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (6, 6, 3, 2)
    assert len(graph.public_splits) == 20
    assert graph.public_splits[0].train.tolist() == [0, 3]
    assert graph.public_splits[1].train.tolist() == [1, 3]
    assert all(split.test.tolist() == [2, 4, 5] for split in graph.public_splits)
    assert graph.y is not None
    perfect = torch.nn.functional.one_hot(graph.y, 2).double()
    for protocol in ("gca", "public"):
        scores = evaluate(perfect, graph, protocol=protocol)
        assert scores.test == (100.0,) * 20


@pytest.mark.parametrize(
    "changes", [{"links": None}, {"features": [[1.0], [2.0, 3.0]]}, {"links": "x"}, {"labels": ["a"] * 6}, {"test_mask": 3}]
)
def test_broken_wikics(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(GraphError, match=r"is not a Wiki-CS file|must have one entry a node"):
        read_wikics(write_wikics(tmp_path / "data.json", **changes))
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(GraphError, match="is not a Wiki-CS file"):
        read_wikics(tmp_path / "data.json")


def test_a_data_root_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="the data root must be a folder, found nothing at"):
        load_dataset("cora", tmp_path / "missing")
