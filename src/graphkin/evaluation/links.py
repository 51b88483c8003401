"""Link prediction: held-out edges against pairs without an edge, by the cosines of rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from torch import Tensor

from graphkin.errors import GraphError
from graphkin.evaluation.rows import ROWS_AT_A_TIME, Rows, unit_rows
from graphkin.evaluation.scoring import Subject, Values


def found_again(subject: Subject) -> Values:
    """AUC and average precision, on test and on validation pairs."""
    held = subject.held_out
    if held is None:
        raise GraphError(
            "protocol links scores edges that training has not seen, and none were held out of this graph: "
            "use graphkin fit --hold-out-edges 0.1, or in Python graphkin.hold_out_edges(graph) before fit."
        )
    rows = unit_rows(subject.rows)
    values: Values = {}
    for prefix, edges, others in (("", held.edges, held.others), ("val_", held.val_edges, held.val_others)):
        positive, negative = cosines(rows, edges), cosines(rows, others)
        values[f"{prefix}auc"] = (100 * area(positive, negative),)
        values[f"{prefix}ap"] = (100 * average_precision(positive, negative),)
    return values


def cosines(unit: Rows, pairs: Tensor) -> np.ndarray:
    """Of the rows of length 1 that ``pairs`` [2, P] name."""
    first, second = pairs.cpu().numpy()
    found = np.empty(len(first))
    for start in range(0, len(first), ROWS_AT_A_TIME):
        part = slice(start, start + ROWS_AT_A_TIME)
        one, other = unit[first[part]], unit[second[part]]
        products = one.multiply(other) if scipy.sparse.issparse(unit) else one * other
        found[part] = np.asarray(products.sum(axis=1)).ravel()
    return found


def area(positive: np.ndarray, negative: np.ndarray) -> float:
    """The chance that a positive score is above a negative one; ties count half."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    return float((ranks.sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))


def average_precision(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean over positive scores of the share of positive ones among the scores that are at least as high."""
    from sklearn.metrics import average_precision_score

    known = np.repeat([1, 0], [len(positive), len(negative)])
    return float(average_precision_score(known, np.concatenate([positive, negative])))
