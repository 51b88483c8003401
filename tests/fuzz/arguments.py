"""The Python interface with one or two arguments of a wrong type or value."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

import graphkin
from graphkin import Graph
from graphkin.evaluation.scores import Scores
from tests.fuzz import odd
from tests.fuzz.draws import Draw, communities
from tests.fuzz.promises import Case
from tests.fuzz.results import check_finite
from tests.fuzz.sources import originals

QUICK: dict[str, Any] = {"epochs": 1, "hidden": 4}


class Spec(NamedTuple):
    """Something to call, with arguments that it takes."""

    name: str
    call: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]


@functools.cache
def arrays() -> dict[str, Any]:
    return communities(Draw(1), odd.N, 2, width=3)


def graph() -> Graph:
    return Graph.from_arrays(**arrays())


def data() -> Data:
    return Data(**{name: torch.from_numpy(value) for name, value in arrays().items()})


def networkx_graph() -> Any:
    made = nx.Graph(arrays()["edge_index"].T.tolist())
    for node in made.nodes:
        made.nodes[node].update({"f0": float(arrays()["x"][node, 0]), "label": int(arrays()["y"][node])})
    return made


def adjacency() -> Any:
    row, column = arrays()["edge_index"]
    return scipy.sparse.coo_matrix((np.ones(len(row)), (row, column)), shape=(odd.N, odd.N)).tocsr()


def masks() -> dict[str, Any]:
    part = np.arange(odd.N) % 4
    return {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part >= 2}


def fitted() -> graphkin.Fitted:
    return graphkin.load(originals().model)


def embedder(X: Any, **given: Any) -> Any:  # noqa: N803
    return graphkin.NodeEmbedder(**given).fit_transform(X)


def loss(u: Any, v: Any, **given: Any) -> Tensor:
    value: Tensor = graphkin.EnhancedInfoNCE(**given)(u, v)
    return value


def similarity(beta: Any, structure: Any, alpha: Any, steps: Any, top_k: Any, **given: Any) -> Any:
    return graphkin.Similarity(beta, structure, alpha, steps, top_k=top_k).on(**given)


def settings_of(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in graphkin.method_named(**given).settings().items() if isinstance(value, float)}


def trained(**given: Any) -> Any:
    """Also embeds, where the graph is one."""
    found = graphkin.fit(**given)
    return [found, found.embed(given["data"])]


def held_out(**given: Any) -> Any:
    """Also scored by what was held out."""
    left = graphkin.hold_out_edges(**given)
    return graphkin.evaluate(left.x.to_dense(), left, protocol="links")


def views() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(0)
    return {name: torch.randn(odd.N, 4, generator=draw) for name in ("u", "v")}


def table(name: str) -> Path:
    """Edges and nodes beside the originals, made once."""
    folder = originals().folder / "tables"
    if not folder.exists():
        folder.mkdir()
        (folder / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i + 1) % 9}\n" for i in range(9)))
        (folder / "nodes.csv").write_text("id,f0,label\n" + "".join(f"{i},{i / 7},{i % 2}\n" for i in range(9)))
    return folder / f"{name}.csv"


HOW = {"preset": None, "device": "cpu", "progress": "none", "similarity": None}
READ = {"label": "label", "ignore": (), "columns": None, "features": None}
ENDS = {"source": None, "target": None, "weight": None, "id": None, "bipartite": False}
SPECS = (
    Spec("fit", trained, lambda: {
        "data": graph(), "method": "grace+", **HOW, "seed": 0, "memory": None, "checkpoint": None, "checkpoint_every": 1,
        **QUICK, "beta": 0.5, "tau": 0.5, "tau_pos": 0.1, "drop_edges": (0.1, 0.2), "top_k": None, "anchors": None,
        "learning_rate": 0.01}),
    Spec("fit with labels", trained, lambda: {
        "data": Graph.from_arrays(**arrays(), **masks()), "method": "graph-mlp+", **HOW, "seed": 1, **QUICK,
        "batch": 10, "dropout": 0.1}),
    Spec("fit_repeats", graphkin.fit_repeats, lambda: {"data": data(), "method": "gca", "seeds": [0, 1], **HOW, **QUICK}),
    Spec("evaluate", graphkin.evaluate, lambda: {
        "embeddings": arrays()["x"], "data": Graph.from_arrays(**arrays(), **masks()), "protocol": "grace", "splits": 2,
        "seed": 0, "train": 0.3, "val": 0.2, "ratio": None}),
    Spec("evaluate otherwise", graphkin.evaluate, lambda: {
        "embeddings": torch.from_numpy(arrays()["x"]), "data": Graph.from_arrays(**arrays(), **masks()),
        "protocol": "few-labels", "splits": 1, "per_class": 1}),
    Spec("similar", graphkin.similar, lambda: {"embeddings": arrays()["x"], "nodes": [0, 2], "count": 3, "exact": False}),
    Spec("cluster", graphkin.cluster, lambda: {"embeddings": arrays()["x"], "count": 2, "seed": 0}),
    Spec("layout", graphkin.layout, lambda: {"embeddings": arrays()["x"], "kind": "pca"}),
    Spec("links", graphkin.links, lambda: {
        "embeddings": arrays()["x"], "data": graph(), "count": 3, "exact": False, "device": "cpu"}),
    Spec("hold_out_edges", held_out, lambda: {"data": graph(), "share": 0.1, "val": 0.1, "seed": 0}),
    Spec("from_arrays", Graph.from_arrays, lambda: {
        **arrays(), **masks(), "edge_weight": np.ones(arrays()["edge_index"].shape[1]), "features": None, "num_nodes": None,
        "ids": np.arange(odd.N), "name": "small", "class_names": ("a", "b")}),
    Spec("from_arrays without features", Graph.from_arrays, lambda: {
        "x": None, "edge_index": arrays()["edge_index"], "num_nodes": odd.N, "features": "degree"}),
    Spec("from_data", Graph.from_data, lambda: {"data": data(), "name": "small", "features": None}),
    Spec("from_scipy", Graph.from_scipy, lambda: {"adjacency": adjacency(), "x": arrays()["x"], "y": arrays()["y"]}),
    Spec("from_networkx", Graph.from_networkx, lambda: {"graph": networkx_graph(), **READ, "name": "small"}),
    Spec("from_tables", Graph.from_tables, lambda: {
        "edges": table("edges"), "nodes": table("nodes"), **READ, **ENDS, "name": None}),
    Spec("from_npz", Graph.from_npz, lambda: {"path": originals().graph, "name": None, "features": None}),
    Spec("open_graph", graphkin.open_graph, lambda: {
        "name_or_path": table("edges"), "nodes": table("nodes"), **READ, **ENDS, "data_root": None}),
    Spec("load", graphkin.load, lambda: {"path": originals().model}),
    Spec("NodeEmbedder", embedder, lambda: {
        "X": graph(), "method": "grace+", "epochs": 1, "preset": None, "random_state": 0, "seed": None, "device": "cpu",
        "progress": "none", "hidden": 4}),
    Spec("EnhancedInfoNCE", loss, lambda: {
        "similarity": torch.eye(odd.N), **views(), "tau": 0.5, "tau_pos": 1.0, "tau_neg": 1.0, "pooling": "sum",
        "num_nodes": None, "device": "cpu", "stored": True, "anchors": None, "positives": None, "negatives": None, "seed": 0,
        "precision": "float32", "implementation": "auto", "effective_positives": None, "effective_negatives": None}),
    Spec("Similarity", similarity, lambda: {
        "data": graph(), "beta": 0.5, "structure": "ppr", "alpha": 0.1, "steps": 5, "top_k": None, "dtype": torch.float32,
        "device": "cpu", "folder": None}),
    Spec("method_named", settings_of, lambda: {"name": "grace+", "preset": None}),
    Spec("embed", lambda **given: fitted().embed(**given), lambda: {
        "data": graphkin.open_graph(originals().graph)}),
)  # fmt: skip


def case(case: Case) -> str:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(case.seed)
        return _case(case)


def _case(case: Case) -> str:
    draw = case.draw
    spec = draw.pick(SPECS)
    given = spec.arguments()
    names = draw.some(tuple(given), 2) or [draw.pick(tuple(given))]
    shown = []
    for name in names:
        given[name] = draw.pick(odd.EVERY)()
        shown.append(f"{name}={_shown(given[name])}")
    told = f"{spec.name} with {', '.join(shown)}"
    try:
        found = case.call(lambda: spec.call(**given))
        if isinstance(found, str):
            return f"{spec.name} {found}"
        check_finite(found)
    except Exception as error:
        raise AssertionError(f"{told}\n{traceback.format_exc()}") from error
    return f"{spec.name} {'scored' if isinstance(found, Scores) else 'worked'}"


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"tensor {value.dtype} {value.layout} {value.device}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape}"
    try:
        return " ".join(repr(value)[:60].split())
    except Exception:
        return type(value).__name__
