"""How long it takes to choose C and score PubMed: the authors' grid search against the two probes.

    GRAPHKIN_DATA=... python benchmarks/probe.py

Each run prints a table and adds a row to benchmarks/results/probe.json. Run it on an idle machine: threads that wait for each
other suffer most from neighbours.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from torch_geometric.io import read_planetoid_data

from graphkin.evaluation.probe import STRENGTHS, ProbeResult, probe_sklearn, probe_torch
from graphkin.graphs.splits import Split, random_split
from graphkin.support.environment import environment

RESULTS = Path(__file__).parent / "results" / "probe.json"
REPEATS = 3


def propagated(root: Path, name: str, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings that need no training, and labels: features smoothed over two steps, reduced, scaled to unit length."""
    data = read_planetoid_data(str(root / "Planetoid" / name / "raw"), name.lower())
    nodes = data.num_nodes
    edges = scipy.sparse.csr_matrix((np.ones(data.edge_index.shape[1]), data.edge_index.numpy()), (nodes, nodes))
    loops = edges + scipy.sparse.identity(nodes)
    root_degree = scipy.sparse.diags(np.asarray(loops.sum(1)).ravel() ** -0.5)
    step = (root_degree @ loops @ root_degree).tocsr()
    features = normalize(data.x.double().numpy(), norm="l1")
    reduced = TruncatedSVD(dims, random_state=0).fit_transform(step @ (step @ features))
    return normalize(reduced), data.y.numpy()


def grid_search(rows: np.ndarray, labels: np.ndarray, split: Split) -> ProbeResult:
    """The authors' way: C by five-fold cross-validation within the training set, whose accuracy stands for validation."""
    train, test = split.train.numpy(), split.test.numpy()
    classifier = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
    search = GridSearchCV(classifier, {"estimator__C": STRENGTHS}, n_jobs=2, cv=5)
    search.fit(rows[train], labels[train])
    score = float(search.score(rows[test], labels[test]))
    return ProbeResult(100 * score, 100 * float(search.best_score_), search.best_params_["estimator__C"])


def measured(way: Callable[[np.ndarray, np.ndarray, Split], ProbeResult], *inputs: Any) -> dict[str, Any]:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = way(*inputs)
        seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median(seconds), "repeats": seconds, **result._asdict()}


def main() -> None:
    rows, labels = propagated(Path(os.environ["GRAPHKIN_DATA"]), "PubMed", 256)
    split = random_split(len(labels), seed=0)
    load = os.getloadavg()[0]
    ways = {way.__name__: measured(way, rows, labels, split) for way in (grid_search, probe_sklearn, probe_torch)}
    print(f"{'':14}{'seconds':>9}{'speed-up':>10}{'test %':>9}{'C':>7}")
    for name, way in ways.items():
        way["speed_up"] = ways["grid_search"]["seconds"] / way["seconds"]
        print(f"{name:14}{way['seconds']:9.3f}{way['speed_up']:9.1f}x{way['test']:9.2f}{way['strength']:7g}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    setting = {"graph": "PubMed", "dims": 256, "cores": os.cpu_count(), "load_before": load, "commit": commit}
    row = {**setting, **environment(), "ways": ways}
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([*earlier, row], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
