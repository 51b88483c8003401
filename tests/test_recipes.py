"""The recipes of docs/research.md do what they say."""

from __future__ import annotations

import hashlib
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import graphkin
from graphkin import Graph
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.graphs import catalogue
from graphkin.methods import METHODS
from graphkin.methods.discovery import discover
from graphkin.support.components import COMPONENTS

PAGE = (Path(__file__).parents[1] / "docs" / "research.md").read_text(encoding="utf-8")
PARTS = ("data", "indices", "indptr", "shape")
RECIPES: dict[str, str] = dict(re.findall(r"^## Add an? (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def blocks(recipe: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", RECIPES[recipe], re.S)


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What a recipe declares is forgotten after the test."""
    registries: list[Any] = [COMPONENTS, METHODS, PROTOCOLS]
    before = [dict(registry._entries) for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)


@pytest.fixture
def namespace(small: Graph, forgetful: None) -> dict[str, Any]:
    return {"graph": small, "graphkin": graphkin, "__name__": "recipe"}


@pytest.mark.parametrize("recipe", ["encoder", "objective", "similarity"])
def test_a_component_trains_saves_and_loads(
    recipe: str, namespace: dict[str, Any], small: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition, use = blocks(recipe)
    assert definition.startswith(f"# {recipe}\n")
    (tmp_path / "recipe.py").write_text(definition)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "recipe", raising=False)
    namespace |= vars(importlib.import_module("recipe"))
    exec(use, namespace)
    fitted = namespace["fitted"]
    assert len(fitted.losses) == 20 and fitted.losses[-1] < fitted.losses[0]
    fitted.save(tmp_path / "model.graphkin")
    loaded = graphkin.load(tmp_path / "model.graphkin")
    assert torch.equal(loaded.embed(small), fitted.embed(small))


@pytest.mark.parametrize(
    ("recipe", "room", "tag"), [("encoder", "models.encoders", "GAT"), ("objective", "objectives", "Decorrelation")]
)
def test_a_file_in_its_room_is_found(
    recipe: str, room: str, tag: str, forgetful: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipe_in_its_room.py").write_text(blocks(recipe)[0])
    package = importlib.import_module(f"graphkin.{room}")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert tag not in COMPONENTS
    discover.cache_clear()
    discover()
    assert tag in COMPONENTS


def test_a_dataset_is_opened_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (table,) = blocks("dataset", "toml")
    raw = tmp_path / "Amazon" / "Mini" / "raw"
    raw.mkdir(parents=True)
    draw = np.random.default_rng(0)
    x = scipy.sparse.csr_matrix((draw.random((60, 12)) < 0.5).astype(np.float32))
    apart = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    adjacency = scipy.sparse.csr_matrix(np.isin(apart, (1, 30, 59)))
    parts = {f"{kind}_{part}": getattr(value, part) for kind, value in (("attr", x), ("adj", adjacency)) for part in PARTS}
    np.savez(raw / "mini.npz", labels=np.arange(60) % 3, **parts)
    digest = hashlib.sha256((raw / "mini.npz").read_bytes()).hexdigest()
    table = table.replace("the SHA-256 of the file", digest)
    ((name, entry),) = tomllib.loads(table).items()
    monkeypatch.setitem(catalogue.DATASETS, name, catalogue.Dataset(name=name, **entry))
    graph = graphkin.open_graph("mini", data_root=tmp_path)
    assert (graph.name, graph.num_nodes, graph.num_classes) == ("mini", 60, 3)


def test_a_protocol_scores_by_its_name(namespace: dict[str, Any]) -> None:
    definition, use = blocks("protocol")
    exec(definition, namespace)
    exec(use, namespace)
    scores = namespace["scores"]
    assert scores.protocol == "nearest-mean" and 50 < scores.mean <= 100
    with pytest.raises(graphkin.InputError, match="ratio"):
        graphkin.evaluate(namespace["graph"].x, namespace["graph"], protocol="nearest-mean", ratio=0.1)
