"""How good embeddings are, by named protocols (docs/math.md, section 6). Test labels choose nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from torch import Tensor

from graphkin.errors import GraphError, SettingError, SplitError, check_choice, check_whole
from graphkin.fitted import Fitted, modules_for
from graphkin.graphs import Graph
from graphkin.methods import Method
from graphkin.sparse import SparseMatrix
from graphkin.splits import Split, random_split

PROTOCOLS = ("grace",)
STRENGTHS = tuple(2.0**k for k in range(-10, 10))
"""The values of C, the inverse of the penalty, among which validation accuracy chooses."""


@dataclass(frozen=True)
class Scores:
    """Test accuracies in percent, one a split, and the validation accuracies that chose C."""

    protocol: str
    test: tuple[float, ...]
    val: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.test))

    @property
    def std(self) -> float:
        """The sample standard deviation; 0 for one split."""
        return float(np.std(self.test, ddof=1)) if len(self.test) > 1 else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "accuracy_mean": self.mean,
            "accuracy_std": self.std,
            "test_accuracies": list(self.test),
            "val_accuracies": list(self.val),
        }

    def __str__(self) -> str:
        spread = f" ± {self.std:.2f} ({len(self.test)} splits)" if len(self.test) > 1 else ""
        return f"{self.mean:.2f} %{spread}"


def evaluate(
    embeddings: Tensor | np.ndarray,
    graph: Graph,
    *,
    protocol: str = "grace",
    splits: int = 10,
    seed: int = 0,
    train: float = 0.1,
    val: float = 0.1,
) -> Scores:
    """Accuracy of logistic regression on the embeddings.

    ``protocol="grace"``: rows scaled to unit length; random splits, 10 % of the nodes for training and 10 % for validation
    unless said otherwise; C from 2⁻¹⁰ to 2⁹ by validation accuracy. The first split has seed ``seed``, the next ``seed + 1``.
    """
    check_choice("protocol", protocol, PROTOCOLS)
    check_whole("splits", splits, at_least=1)
    rows = _checked_rows(embeddings, graph.num_nodes)
    labels = _checked_labels(graph)
    results = [probe(rows, labels, random_split(graph.num_nodes, train=train, val=val, seed=seed + i)) for i in range(splits)]
    return Scores(protocol, tuple(test for test, _ in results), tuple(val for _, val in results))


def probe(embeddings: np.ndarray, labels: np.ndarray, split: Split) -> tuple[float, float]:
    """Test and validation accuracy in percent of the classifier that is best on validation.

    Several C often share the best accuracy on a few hundred nodes, from underfitted to overfitted: the lower log loss on
    validation decides between them.
    """
    train, val, test = (nodes.numpy() for nodes in (split.train, split.val, split.test))
    if len(np.unique(labels[train])) < 2:
        raise SplitError(
            f"the training set must hold at least 2 classes, found {len(np.unique(labels[train]))} in {len(train)} nodes."
        )
    best: Any = None
    best_quality = (-1.0, 0.0)
    for strength in STRENGTHS:
        classifier = OneVsRestClassifier(LogisticRegression(solver="liblinear", C=strength))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit(embeddings[train], labels[train])
        quality = _quality(classifier, embeddings[val], labels[val])
        if quality > best_quality:
            best, best_quality = classifier, quality
    return 100 * float(best.score(embeddings[test], labels[test])), 100 * best_quality[0]


def _quality(classifier: Any, rows: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Accuracy, and minus the log loss; a class that training did not show has probability 0."""
    probabilities = np.zeros((len(rows), labels.max() + 1 + classifier.classes_.max()))
    probabilities[:, classifier.classes_] = classifier.predict_proba(rows)
    likelihood = np.clip(probabilities[np.arange(len(rows)), labels], 1e-12, 1)
    return float((classifier.predict(rows) == labels).mean()), float(np.log(likelihood).mean())


def raw_features(graph: Graph) -> Tensor:
    """The row that costs nothing: the features themselves."""
    return graph.x.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x


def untrained(graph: Graph, method: Method, seed: int = 0) -> Tensor:
    """The embeddings of the method's encoder before any training."""
    classes = graph.num_classes if method.needs_labels else 0
    modules = modules_for(method, graph.num_features, classes, seed)
    return Fitted(method, modules, graph.num_features, classes, seed).embed(graph)


def own_accuracy(fitted: Fitted, graph: Graph) -> float:
    """Accuracy in percent of a method that predicts classes itself, on the graph's test mask."""
    if graph.y is None or graph.test_mask is None:
        raise GraphError("test accuracy needs labels and a test_mask.")
    predicted = fitted.predict(graph)[graph.test_mask]
    return 100 * float((predicted == graph.y[graph.test_mask]).float().mean())


def _checked_rows(embeddings: Tensor | np.ndarray, nodes: int) -> np.ndarray:
    rows = embeddings.detach().cpu().numpy() if isinstance(embeddings, Tensor) else np.asarray(embeddings)
    if rows.ndim != 2 or rows.shape[0] != nodes or rows.shape[1] == 0:
        raise SettingError(f"embeddings must have one row for each of the {nodes} nodes, found shape {rows.shape}.")
    if rows.dtype.kind not in "biuf" or not np.isfinite(rows).all():
        raise SettingError("embeddings must be finite numbers, found others.")
    return torch.nn.functional.normalize(torch.from_numpy(rows.astype(np.float64)), dim=1).numpy()


def _checked_labels(graph: Graph) -> np.ndarray:
    if graph.y is None:
        raise GraphError("evaluation needs labels, and the graph has none (y is missing).")
    missing = int((graph.y < 0).sum())
    if missing:
        raise GraphError(f"evaluation needs a label for every node, found {missing} without one.")
    if graph.num_classes < 2:
        raise GraphError(f"evaluation needs at least 2 classes, found {graph.num_classes}.")
    return graph.y.numpy()
