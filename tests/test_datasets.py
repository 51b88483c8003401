from __future__ import annotations

import hashlib
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graphkin.errors import GraphError
from graphkin.evaluation.evaluate import evaluate
from graphkin.graphs import catalogue, datasets
from graphkin.graphs.catalogue import DATASETS
from graphkin.graphs.datasets import load_dataset, read_wikics

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
    monkeypatch.setattr(catalogue, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("GRAPHKIN_DATA", raising=False)
    return tmp_path / "cache"


def publish(monkeypatch: pytest.MonkeyPatch, name: str, raw: Path, **changes: object) -> None:
    """Let the files in a folder be the published ones, to be downloaded from there."""
    files = {file: hashlib.sha256((raw / file).read_bytes()).hexdigest() for file in DATASETS[name].files}
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], **{"url": raw.as_uri(), "files": files, **changes}))  # type: ignore[arg-type]


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
def test_changed_files_are_refused(data_root: Path, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("Planetoid/Cora", "Amazon/Photo"):
        shutil.copytree(data_root / kind, tmp_path / kind, copy_function=shutil.copyfile)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o755)
    changed = tmp_path / "Planetoid/Cora/raw/ind.cora.graph"
    changed.write_bytes(changed.read_bytes() + b".")
    with pytest.raises(GraphError, match=r"ind\.cora\.graph .*SHA-256"):
        load_dataset("cora", tmp_path)
    archive = tmp_path / "Amazon/Photo/raw/amazon_electronics_photo.npz"
    with np.load(archive) as given:
        arrays = dict(given)
    arrays["labels"] = np.zeros_like(arrays["labels"])
    np.savez(archive, **arrays)
    with pytest.raises(GraphError, match=r"photo\.npz .*SHA-256"):
        load_dataset("photo", tmp_path)
    publish(monkeypatch, "photo", archive.parent)
    with pytest.raises(GraphError, match=r"photo .*\(7650, 119081, 745, 8\).* found \(7650, 119081, 745, 1\)"):
        load_dataset("photo", tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 nor this", b"PK\x05\x06" + bytes(18)])
def test_a_broken_archive(content: bytes, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/amazon_electronics_photo.npz").write_bytes(content)
    publish(monkeypatch, "photo", tmp_path / "raw")
    with pytest.raises(GraphError, match=r"photo\.npz"):
        load_dataset("photo", tmp_path)


@pytest.mark.data
def test_graphs_are_those_of_the_committed_results(data_root: Path) -> None:
    """Results are stored by the content of their graph, so no way of reading may change it."""
    results = Path(__file__).parent.parent / "docs/results/reproduction.json"
    tasks = json.loads(results.read_text(encoding="utf-8"))["tasks"].values()
    known = {(task["graph"], task["content"]) for task in tasks if task["graph"] in DATASETS}
    assert {(name, load_dataset(name, data_root).content) for name in COUNTS} == known


def test_every_dataset_is_published_somewhere() -> None:
    for dataset in DATASETS.values():
        assert dataset.url.startswith("https://") == bool(dataset.files)
        assert all(len(digest) == 64 or dataset.name == "wikics" for digest in dataset.files.values())


def test_a_failed_download_names_the_files_and_the_folder(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*arguments: object, **options: object) -> None:
        raise OSError("no network\nand more")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    for name in ("cora", "photo", "wikics"):
        assert DATASETS[name].state() == "to download"
        with pytest.raises(GraphError) as caught:
            load_dataset(name)
        message = str(caught.value)
        assert message.startswith(name) and "(no network)" in message
        assert str(empty_cache / DATASETS[name].folder / "raw") in message
        assert all(file in message for file in DATASETS[name].files)
        assert DATASETS[name].state() == "to download"


def test_a_download_goes_to_the_cache_and_is_found_again(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_wikics(tmp_path / "data.json")
    publish(monkeypatch, "wikics", tmp_path, nodes=6, edges=6, features=3, classes=2)
    assert load_dataset("wikics").num_nodes == 6
    source.unlink()
    assert load_dataset("wikics").num_nodes == 6
    assert [path.name for path in (empty_cache / "WikiCS/raw").iterdir()] == ["data.json"]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"downloading {source.as_uri()}\n"


def test_a_download_goes_on_where_it_stopped(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(DATASETS, "cora", replace(DATASETS["cora"], files={"one": "", "two": ""}))
    for file in DATASETS["cora"].files:
        (tmp_path / file).write_text(file)
    publish(monkeypatch, "cora", tmp_path)
    (tmp_path / "two").unlink()
    with pytest.raises(GraphError, match=r"cora .*\(.*two"):
        load_dataset("cora")
    (tmp_path / "one").unlink()
    (tmp_path / "two").write_text("two")
    raw = datasets._download(DATASETS["cora"])
    assert {path.name: path.read_text() for path in raw.iterdir()} == {"one": "one", "two": "two"}
    assert [line.rpartition("/")[2] for line in capsys.readouterr().err.splitlines()] == ["one", "two", "two"]


class Answer(io.BytesIO):
    """What a server sends, with the length that it announces."""

    def __init__(self, content: bytes, length: int) -> None:
        super().__init__(content)
        self.headers = {"Content-Length": str(length)}


@pytest.mark.parametrize(
    ("length", "largest", "reason"),
    [(100, 1000, "SHA-256"), (100, 99, "more than 99 bytes"), (101, 1000, "not complete: 100 bytes")],
)
def test_what_is_not_the_published_file_is_neither_kept_nor_opened(
    length: int, largest: int, reason: str, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def answer(url: str, timeout: float) -> Answer:
        calls.append((url, timeout))
        return Answer(b"x" * 100, length)

    def opened(*arguments: object) -> None:
        pytest.fail("a file was opened")

    monkeypatch.setattr("urllib.request.urlopen", answer)
    monkeypatch.setattr(datasets, "LARGEST", largest)
    monkeypatch.setattr(datasets, "_READERS", {"Planetoid": opened})
    with pytest.raises(GraphError, match=rf"cora .*\(.*{reason}.*\)"):
        load_dataset("cora")
    first = next(iter(DATASETS["cora"].files))
    assert calls == [(f"https://github.com/kimiyoung/planetoid/raw/master/data/{first}", 60)]
    assert not [path for path in empty_cache.rglob("*") if path.is_file()]


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


@pytest.mark.slow
def test_wikics_and_its_twenty_splits(tmp_path: Path) -> None:
    path = write_wikics(tmp_path / "data.json")
    graph = read_wikics(path, path.read_bytes())
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
    path = write_wikics(tmp_path / "data.json", **changes)
    for content in (path.read_bytes(), b"{", b"[" * 100_000):
        with pytest.raises(GraphError, match=r"data\.json"):
            read_wikics(path, content)


def test_a_data_root_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"data root .*missing"):
        load_dataset("cora", tmp_path / "missing")
