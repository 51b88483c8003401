"""How good embeddings are, by named protocols (docs/math.md, section 6). Test labels choose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphkin.errors import GraphError, SettingError, SplitError, check_choice, check_whole
from graphkin.evaluation.probe import ROWS_AT_A_TIME, probe, probe_adam
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.arrays import MOST_FEATURES, as_array, plain_tensor
from graphkin.graphs.graph import Graph, as_graph
from graphkin.graphs.splits import Split, few_labels, random_split
from graphkin.methods.method import Method
from graphkin.support.sparse import SparseMatrix, check_compressed
from graphkin.training.fitted import Fitted, modules_for

Rows: TypeAlias = Any
"""a NumPy array or a SciPy CSR matrix [N, d]"""
NEIGHBOURS = (5, 10)
MOST_SPLITS = 100_000
LARGEST_VALUE = float(np.finfo(np.float32).max)
APART, SAME = 0.001, 1e-6
"""one less the mean cosine of two nodes: below the first, embeddings are looked at, below the second, they are equal"""
APART_AFTER_COLLAPSE = 0.05
"""of what it was before training, at most"""


@dataclass(frozen=True)
class Scores:
    """The values of each measure in percent, one for each split or repetition; the first measure is the main one."""

    protocol: str
    values: dict[str, tuple[float, ...]]

    @property
    def test(self) -> tuple[float, ...]:
        return next(iter(self.values.values()))

    @property
    def mean(self) -> float:
        return float(np.mean(self.test))

    @property
    def std(self) -> float:
        """The sample standard deviation; 0 for one value."""
        return _spread(self.test)

    def as_dict(self) -> dict[str, Any]:
        summary: dict[str, Any] = {"protocol": self.protocol}
        for name, values in self.values.items():
            summary |= {f"{name}_mean": float(np.mean(values)), f"{name}_std": _spread(values), name: list(values)}
        return summary

    def __str__(self) -> str:
        shown = [(name, values) for name, values in self.values.items() if not name.startswith("val_")]
        parts = [
            f"{name} {np.mean(values):.2f} %" + (f" ± {_spread(values):.2f}" if len(values) > 1 else "")
            for name, values in shown
        ]
        return ", ".join(parts) + (f" ({len(self.test)} times)" if len(self.test) > 1 else "")


def evaluate(
    embeddings: Tensor | Rows,
    data: Graph | Data,
    *,
    protocol: str = "grace",
    splits: int | Sequence[Split] = 10,
    seed: int = 0,
    train: float = 0.1,
    val: float = 0.1,
    ratio: float | None = None,
    per_class: int = 5,
) -> Scores:
    """Score embeddings against the labels of a graph. Nodes without a label take no part.

    Protocols:
        grace: logistic regression on ``splits`` random splits, 10 % of the nodes to train on (or ``ratio`` of them, drawn from
            the 10 %) and 10 % to choose C on, among 2⁻¹⁰ … 2⁹; rows scaled to unit length.
        gca: the same splits, or the public ones where there are several; logistic regression by Adam, scored where validation
            is best; rows as they are.
        public: logistic regression on the public splits of the graph.
        few-labels: the same with ``per_class`` training nodes of each class, drawn ``splits`` times.
        clustering: k-means into as many clusters as classes, ``splits`` times: NMI and ARI.
        search: the share of a node's 5 and 10 most similar nodes that are of its class.

    The first repetition has seed ``seed``, the next ``seed + 1``. ``splits`` may also be splits of one's own for grace and gca;
    one that leaves the graph, or tests a class that it does not train, is refused.
    """
    graph = as_graph(data)
    check_choice("protocol", protocol, PROTOCOLS)
    own = tuple(splits) if isinstance(splits, list | tuple) else None
    if own is not None and not all(isinstance(split, Split) for split in own):
        raise SettingError("splits must be a number, or a list of graphkin.Split, found something else in the list.")
    repeats: Any = splits if own is None else len(own)
    check_whole("splits", repeats, at_least=1, at_most=MOST_SPLITS)
    check_whole("seed", seed, at_least=0)
    rows = checked_rows(embeddings, graph.num_nodes)
    labels = _checked_labels(graph)
    known = (labels >= 0).nonzero()[0]
    seeds = range(seed, seed + repeats)

    def random() -> Iterable[Split]:
        for given in own or ():
            given.check(graph.num_nodes, torch.from_numpy(labels))
            yield given
        for s in () if own else seeds:
            drawn = random_split(len(known), train=train, val=val, ratio=ratio, seed=s)
            parts = [torch.from_numpy(known[part.numpy()]) for part in drawn.parts().values()]
            yield Split(parts[0], parts[1], parts[2], drawn.name, s)

    if protocol == "gca":
        drawn = graph.public_splits if len(graph.public_splits) > 1 and not own else random()
        return _accuracies(protocol, drawn, lambda split: probe_adam(_dense(rows), labels, split, seed=seed))
    unit = _unit_rows(rows)
    if protocol == "clustering":
        return Scores(protocol, _clustering(unit[known], labels[known], seeds))
    if protocol == "search":
        return Scores(protocol, _search(unit[known], labels[known]))
    chosen: dict[str, Callable[[], Iterable[Split]]] = {
        "grace": random,
        "public": lambda: public_splits(graph),
        "few-labels": lambda: (few_labels(public_splits(graph)[0], torch.from_numpy(labels), per_class, s) for s in seeds),
    }
    return _accuracies(protocol, chosen[protocol](), lambda split: probe(unit, labels, split))


PROTOCOLS = ("grace", "gca", "public", "few-labels", "clustering", "search")


def public_splits(graph: Graph) -> tuple[Split, ...]:
    if not graph.public_splits:
        raise SplitError(f"{graph.name} comes with no public split; use protocol grace, or give it train, val and test masks.")
    return graph.public_splits


def baselines(graph: Graph, method: Method, seed: int = 0) -> dict[str, Tensor | Rows]:
    """The rows that cost nothing: what any embedding must beat to have learned something."""
    return {
        "raw features": raw_features(graph),
        "propagated features": propagated_features(graph),
        "untrained encoder": untrained(graph, method, seed),
    }


def raw_features(graph: Graph) -> Tensor | Rows:
    return graph.x if isinstance(graph.x, Tensor) else _scipy(graph.x)


def propagated_features(graph: Graph, steps: int = 2) -> Tensor | Rows:
    """Features averaged over neighbourhoods, Â^K x with self loops, without any training."""
    adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight)
    rows: Any = raw_features(graph)
    for _ in range(steps):
        rows = adjacency @ rows if isinstance(rows, Tensor) else _scipy(adjacency) @ rows
    return rows


def untrained(graph: Graph, method: Method, seed: int = 0) -> Tensor:
    """The embeddings of the method's encoder before any training."""
    classes = graph.num_classes if method.needs_labels else 0
    modules = modules_for(method, graph.num_features, classes, seed)
    return Fitted(method, modules, graph.num_features, classes, seed).embed(graph)


def own_accuracy(fitted: Fitted, graph: Graph) -> float:
    """Accuracy in percent of a method that predicts classes itself, on the graph's test mask."""
    if graph.y is None or graph.test_mask is None:
        raise GraphError("test accuracy needs labels and a test_mask.")
    tested = graph.test_mask & (graph.y >= 0)
    if not tested.any():
        raise GraphError("test accuracy needs labelled nodes in the test_mask, found none.")
    return 100 * float((fitted.predict(graph)[tested] == graph.y[tested]).float().mean())


def _accuracies(protocol: str, splits: Iterable[Split], score: Callable[[Split], Any]) -> Scores:
    results = [score(split) for split in splits]
    test, val = tuple(result.test for result in results), tuple(result.val for result in results)
    return Scores(protocol, {"accuracy": test, "val_accuracy": val})


def _clustering(rows: Rows, labels: np.ndarray, seeds: Iterable[int]) -> dict[str, tuple[float, ...]]:
    clusters = [
        KMeans(len(np.unique(labels)), n_init=5, random_state=seed % 2**32).fit_predict(rows).astype(np.int64) for seed in seeds
    ]
    return {
        "nmi": tuple(100 * float(normalized_mutual_info_score(labels, found)) for found in clusters),
        "ari": tuple(100 * float(adjusted_rand_score(labels, found)) for found in clusters),
    }


def _search(rows: Rows, labels: np.ndarray, block: int = 2048) -> dict[str, tuple[float, ...]]:
    """Blocks of cosines, so that memory grows with N."""
    if len(labels) <= max(NEIGHBOURS):
        raise SettingError(f"protocol search needs more than {max(NEIGHBOURS)} labelled nodes, found {len(labels)}.")
    matches = []
    for start in range(0, len(labels), block):
        cosines = rows[start : start + block] @ rows.T
        cosines = torch.from_numpy(cosines.toarray() if scipy.sparse.issparse(cosines) else cosines)
        own = torch.arange(len(cosines))
        cosines[own, start + own] = -2
        nearest = cosines.topk(max(NEIGHBOURS), dim=1).indices.numpy()
        matches.append(labels[nearest] == labels[start : start + block, None])
    same = np.concatenate(matches)
    return {f"sim@{k}": (100 * float(same[:, :k].mean()),) for k in NEIGHBOURS}


def collapse(embeddings: Tensor, fitted: Fitted, graph: Graph) -> str | None:
    """What there is to say of embeddings that all point the same way; None if they do not, or did as much before training."""
    apart = 1 - mean_cosine(embeddings)
    if apart > APART:
        return None
    if apart < SAME:
        return "all nodes have the same embedding: features and neighbours do not tell them apart."
    if apart > APART_AFTER_COLLAPSE * (1 - mean_cosine(untrained(graph, fitted.method, fitted.seed))):
        return None
    return (
        f"training collapsed, all nodes point the same way (mean cosine {1 - apart:.4f}): try another seed, or a smaller "
        f"learning_rate than {fitted.method.optimiser.learning_rate}."
    )


def mean_cosine(embeddings: Tensor) -> float:
    """Of two nodes, on average."""
    total = torch.zeros(embeddings.size(1), dtype=torch.float64)
    for part in embeddings.split(ROWS_AT_A_TIME):
        total += F.normalize(part, dim=1).sum(dim=0).cpu()
    return float((total / len(embeddings)).square().sum())


def checked_rows(embeddings: Tensor | Rows, nodes: int) -> Rows:
    """A copy in float64."""
    if np.ma.is_masked(embeddings):
        raise SettingError("embeddings must be complete, found masked values.")
    rows: Any = plain_tensor(embeddings, "embeddings").double().numpy() if isinstance(embeddings, Tensor) else embeddings
    if scipy.sparse.issparse(rows):
        check_compressed(rows, "embeddings")
        rows = rows.tocsr()
    else:
        rows = as_array(rows, "embeddings")
    if rows.ndim != 2 or rows.shape[0] != nodes or rows.shape[1] == 0:
        raise SettingError(f"embeddings must have one row for each of the {nodes} nodes, found shape {rows.shape}.")
    if rows.shape[1] > MOST_FEATURES:
        raise SettingError(f"embeddings may have at most {MOST_FEATURES:,} columns, found {rows.shape[1]:,}.")
    values = rows.data if scipy.sparse.issparse(rows) else rows
    if rows.dtype.kind not in "biuf" or not (
        values.min(initial=0) >= -LARGEST_VALUE and values.max(initial=0) <= LARGEST_VALUE
    ):
        raise SettingError("embeddings must be finite numbers that a float32 can hold, found others.")
    return rows.astype(np.float64)


def _unit_rows(rows: Rows) -> Rows:
    """Dense rows are scaled in place: a million of them are gigabytes."""
    if scipy.sparse.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        return scipy.sparse.diags(1 / np.maximum(lengths, 1e-12)) @ rows
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows[first : first + ROWS_AT_A_TIME]
        part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
    return rows


def _checked_labels(graph: Graph) -> np.ndarray:
    """Classes, -1 where unknown."""
    if graph.y is None:
        raise GraphError("evaluation needs labels, and the graph has none (y is missing).")
    labels = graph.y.cpu().numpy()
    classes = len(np.unique(labels[labels >= 0]))
    if classes < 2:
        missing = int((labels < 0).sum())
        raise GraphError(f"evaluation needs at least 2 classes, found {classes} ({missing} nodes have no label).")
    return labels


def _dense(rows: Rows) -> np.ndarray:
    dense: np.ndarray = rows.toarray() if scipy.sparse.issparse(rows) else rows
    return dense


def _scipy(matrix: SparseMatrix) -> scipy.sparse.csr_matrix:
    csr = matrix.csr.cpu()
    parts = (csr.values().double().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy())
    return scipy.sparse.csr_matrix(parts, shape=tuple(matrix.shape))


def _spread(values: tuple[float, ...]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
