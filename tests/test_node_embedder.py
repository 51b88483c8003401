"""``NodeEmbedder(graph=...)``: nodes as X, in whatever scikit-learn does with a transformer."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from graphkin import Graph, NodeEmbedder, SparseMatrix, fit
from graphkin.errors import GraphError, InputError, SettingError
from graphkin.training import kept
from tests.wording import refused, told

QUICK: dict[str, Any] = {"epochs": 2, "hidden": 8}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_KEPT", type(kept._KEPT)())


@pytest.fixture
def y(small: Graph) -> np.ndarray:
    assert small.y is not None
    return small.y.numpy()


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The settings of every training."""
    seen: list[dict[str, Any]] = []

    def counted(*given: Any, **settings: Any) -> Any:
        seen.append(settings)
        return fit(*given, **settings)

    monkeypatch.setattr(kept, "fit", counted)
    return seen


def with_ids(graph: Graph, ids: Any) -> Graph:
    return replace(graph, ids=np.array(ids, dtype=object))


def pipeline_of(graph: Graph, **settings: Any) -> Pipeline:
    return Pipeline([("embedder", NodeEmbedder("grace+", graph=graph, **{**QUICK, **settings})), ("classifier", classifier())])


def classifier() -> LogisticRegression:
    return LogisticRegression(C=100, max_iter=2000)


def test_rows_are_those_of_the_nodes(small: Graph) -> None:
    """Whichever nodes fit saw, the model is that of the whole graph."""
    whole = fit(small, "grace+", **QUICK).embed(small).numpy()
    embedder = NodeEmbedder("grace+", graph=small, **QUICK)
    assert np.array_equal(embedder.fit_transform([3, 1, 3]), whole[[3, 1, 3]])
    assert np.array_equal(embedder.transform(np.array([[39], [0]])), whole[[39, 0]])
    assert np.array_equal(embedder.embedding_, whole)
    assert embedder.n_features_in_ == 1
    embedder.transform([0])[:] = 7
    assert np.array_equal(embedder.transform([0]), whole[[0]])


def test_nodes_in_every_form(small: Graph) -> None:
    named = with_ids(small, [f"n{i}" for i in range(40)])
    embedder = NodeEmbedder("diffusion", graph=named).fit(range(40))
    expected = embedder.embedding_[[5, 2]]
    ids, places = ["n5", "n2"], [5, 2]
    forms = [ids, np.array(ids), pd.Series(ids), pd.Series(ids, dtype="category"), pd.DataFrame({"id": ids}), places]
    forms += [np.array(places, dtype=np.uint8), torch.tensor(places), pd.Series(places, dtype="Int64"), np.array([ids]).T]
    for form in forms:
        assert np.array_equal(embedder.transform(form), expected), form


def test_numbers_are_ids_where_ids_are_numbers(small: Graph) -> None:
    """Never taken for indices, which would give the rows of other nodes."""
    backwards = list(range(39, -1, -1))
    for ids in (backwards, [str(i) for i in backwards]):
        embedder = NodeEmbedder("diffusion", graph=with_ids(small, ids)).fit([0])
        for nodes in ([39, 2], ["39", "2"]):
            assert np.array_equal(embedder.transform(nodes), embedder.embedding_[[0, 37]])


@pytest.mark.parametrize(
    ("nodes", "facts"),
    [
        ([40], ("0..39", "40")),
        ([-1], ("0..39", "-1")),
        ([0.0, 1.0], ("indices", "0.0")),
        ([np.nan], ("indices", "nan")),
        ([True], ("indices", "True")),
        (["ann"], ("no ids", "'ann'")),
        ([], ("[n, 1]", "(0,)")),
        (3, ("[n, 1]", "()")),
        ([[1, 2], [3, 4]], ("[n, 1]", "(2, 2)")),
        (np.zeros((2, 1, 1)), ("[n, 1]", "(2, 1, 1)")),
        (pd.DataFrame({"id": [1], "age": [2]}), ("[n, 1]", "(1, 2)")),
        (torch.eye(3).to_sparse(), ("X", "sparse")),
        (SparseMatrix(torch.eye(3).to_sparse_csr()), ("X", "()")),
    ],
)
def test_wrong_nodes(small: Graph, nodes: Any, facts: tuple[str, ...]) -> None:
    embedder = NodeEmbedder("diffusion", graph=small)
    with refused(InputError, "X", *facts):
        embedder.fit(nodes)
    with refused(InputError, "X", *facts):
        embedder.fit([0]).transform(nodes)


def test_unknown_ids(small: Graph) -> None:
    with refused(SettingError, "X", "'n0'", "0..39", "2 unknown", "'eve'"):
        NodeEmbedder("diffusion", graph=with_ids(small, [f"n{i}" for i in range(40)])).fit(["n1", "eve", "bob"])
    with refused(SettingError, "X", "numbers are ids", "1 unknown", "7"):
        NodeEmbedder("diffusion", graph=with_ids(small, range(100, 140))).fit([100, 7])
    with refused(GraphError, "'a'"):
        NodeEmbedder("diffusion", graph=with_ids(small, ["a"] * 40)).fit(["a"])


def test_as_many_labels_as_nodes(small: Graph) -> None:
    with refused(SettingError, "X and y", "3 and 2"):
        NodeEmbedder("diffusion", graph=small).fit([0, 1, 2], [0, 1])


def test_whatever_fit_takes_is_a_graph(small: Graph) -> None:
    names = [f"n{i}" for i in range(40)]
    nodes = pd.DataFrame(small.x.to_dense().numpy(), index=names).add_prefix("f")
    source, target = small.edge_index.numpy()
    edges = pd.DataFrame({"source": nodes.index[source], "target": nodes.index[target]})
    rows = NodeEmbedder("grace", graph=(edges, nodes), **QUICK).fit_transform(nodes.index)
    assert rows.shape == (40, 8)
    made = NodeEmbedder("grace", graph=edges, features="degree", **QUICK).fit(["n3"])
    assert made.fitted_.features == "degree"
    places = Graph.from_pandas(edges, features="degree").ids
    assert places is not None
    torch.testing.assert_close(made.fitted_.embed(edges).numpy(), made.transform(places))


def test_labels_of_the_graph_are_not_used(small: Graph) -> None:
    """Nor do masks decide anything: the same without them."""
    bare = Graph.from_arrays(small.x, small.edge_index, name="small")
    for method in ("grace+", "kin"):
        rows = [NodeEmbedder(method, graph=graph, epochs=2).fit_transform(range(40)) for graph in (small, bare)]
        assert np.array_equal(*rows)


def test_labels_of_a_test_fold_are_refused(small: Graph, y: np.ndarray) -> None:
    """graph-mlp is trained with the labels of both masks, so that all of these nodes must be in X."""
    assert small.train_mask is not None and small.val_mask is not None
    used = (small.train_mask | small.val_mask).numpy()
    embedder = NodeEmbedder("graph-mlp+", graph=small, **QUICK)
    with refused(GraphError, "graph-mlp+", "train_mask", "val_mask", "1 that"):
        embedder.fit(np.flatnonzero(used)[1:])
    split = PredefinedSplit(np.where(used, -1, 0))
    scores = cross_val_score(make_pipeline(embedder, classifier()), np.arange(40), y, cv=split, error_score="raise")
    assert scores.shape == (1,)


def test_cross_validation(small: Graph, y: np.ndarray) -> None:
    scores = cross_val_score(pipeline_of(small, epochs=40), np.arange(40), y, cv=4)
    assert scores.shape == (4,) and scores.mean() > 0.85


def test_folds_and_classifiers_share_a_training(small: Graph, y: np.ndarray, trainings: list[dict[str, Any]]) -> None:
    grid = {"embedder__beta": [0.2, 0.8], "embedder__tau": [0.4, 0.6], "classifier__C": [1.0, 100.0]}
    search = GridSearchCV(pipeline_of(small), grid, cv=StratifiedKFold(3)).fit(np.arange(40), y)
    assert sorted((one["beta"], one["tau"]) for one in trainings) == [(0.2, 0.4), (0.2, 0.6), (0.8, 0.4), (0.8, 0.6)]
    assert len(search.cv_results_["params"]) == 8 and np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_["embedder"]
    assert best.beta == search.best_params_["embedder__beta"]
    assert np.array_equal(best.embedding_, fit(small, "grace+", beta=best.beta, tau=best.tau, **QUICK).embed(small).numpy())


def test_what_is_kept_is_never_out_of_date(small: Graph, trainings: list[dict[str, Any]]) -> None:
    assert isinstance(small.x, torch.Tensor)
    embedder = NodeEmbedder("grace+", graph=small, **QUICK)

    def trained_anew(**change: Any) -> bool:
        before = len(trainings)
        embedder.set_params(**change).fit([0])
        return len(trainings) > before

    assert trained_anew() and not trained_anew()
    assert not trained_anew(graph=Graph.from_arrays(small.x.clone(), small.edge_index, small.y, name="again"))
    embedder.set_params(graph=small)
    with torch.no_grad():
        small.x[0, 0] += 1
    assert trained_anew(), "features that were changed in place"
    for change in ({"beta": 0.3}, {"seed": 4}, {"method": "gca+"}, {"feature_scale": "none"}, {"epochs": 3}):
        assert trained_anew(**change) and not trained_anew(), change
    embedder.set_params(random_state=np.random.RandomState(0), seed=None)
    assert trained_anew() and trained_anew(), "another seed each time"


def test_what_is_kept_is_not_shared(small: Graph) -> None:
    one, other = (NodeEmbedder("grace", graph=small, **QUICK).fit([0]) for _ in range(2))
    with torch.no_grad():
        next(one.fitted_.modules.parameters()).zero_()
    again = NodeEmbedder("grace", graph=small, **QUICK).fit([0])
    for fitted in (other, again):
        assert np.array_equal(fitted.fitted_.embed(small).numpy(), fitted.embedding_)
    with pytest.raises(ValueError, match="read-only"):
        one.embedding_[0] = 0


def test_at_most_so_much_is_kept(small: Graph, monkeypatch: pytest.MonkeyPatch, trainings: list[dict[str, Any]]) -> None:
    one = 40 * 8 * 4
    monkeypatch.setattr(kept, "MOST_BYTES", 2 * one)
    for seed in (0, 1, 2, 2, 1, 0):
        NodeEmbedder("grace", graph=small, seed=seed, **QUICK).fit([0])
    assert [one["seed"] for one in trainings] == [0, 1, 2, 0]
    monkeypatch.setattr(kept, "MOST_BYTES", one - 1)
    for _ in range(2):
        NodeEmbedder("grace", graph=small, seed=3, **QUICK).fit([0])
    assert len(trainings) == 5, "the last one whatever its size"


def test_what_every_call_trains(small: Graph, tmp_path: Any, trainings: list[dict[str, Any]]) -> None:
    """A similarity that is a function is known by its values at some nodes; a checkpoint is a file that must be there."""
    for option in ({"similarity": lambda nodes: torch.ones(len(nodes), 40)}, {"checkpoint": tmp_path / "run"}):
        for _ in range(2):
            NodeEmbedder("grace+", graph=small, **QUICK, **option).fit([0])
    assert len(trainings) == 4 and (tmp_path / "run").exists()


def test_an_earlier_training_is_told(small: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    embedder = NodeEmbedder("grace", graph=small, progress="lines", **QUICK)
    assert "epoch 2/2" in (embedder.fit([0]), capsys.readouterr().err)[1]
    embedder.fit([0])
    assert told(capsys.readouterr().err, "grace on small", "trained before")


@pytest.mark.slow
def test_several_processes(small: Graph, y: np.ndarray) -> None:
    grid = {"embedder__beta": [0.2, 0.8]}
    searches = [GridSearchCV(pipeline_of(small), grid, cv=2, n_jobs=jobs).fit(np.arange(40), y) for jobs in (1, 2)]
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    assert np.array_equal(*scores)


def test_frames_out(small: Graph) -> None:
    embedder = NodeEmbedder("grace", graph=with_ids(small, [f"n{i}" for i in range(40)]), **QUICK)
    people = pd.DataFrame({"id": ["n3", "n9"]}, index=["ann", "bob"])
    frame = embedder.set_output(transform="pandas").fit_transform(people)
    assert frame.columns.tolist() == embedder.get_feature_names_out().tolist() == [f"e{i}" for i in range(8)]
    assert frame.index.tolist() == ["ann", "bob"] and np.array_equal(frame.to_numpy(), embedder.embedding_[[3, 9]])
    assert isinstance(clone(embedder).fit_transform(people), pd.DataFrame)
    whole = NodeEmbedder("grace", **QUICK).set_output(transform="pandas").fit_transform(small)
    assert whole.shape == (40, 8) and whole.columns[0] == "e0"


def test_clones_share_the_graph(small: Graph) -> None:
    embedder = NodeEmbedder("grace", graph=small, **QUICK).fit([0])
    copy = clone(embedder)
    assert copy.graph is small and not hasattr(copy, "fitted_") and copy.hidden == 8
    assert embedder.graph is small and hasattr(embedder, "fitted_")
    assert clone(pipeline_of(small))["embedder"].graph is small


def test_pickled(small: Graph) -> None:
    sparse = Graph.from_arrays(SparseMatrix(torch.eye(40).to_sparse_csr()), small.edge_index, small.y)
    for graph in (small, sparse):
        embedder = NodeEmbedder("grace", graph=graph, **QUICK)
        again = pickle.loads(pickle.dumps(embedder))
        expected = embedder.fit_transform([4, 2])
        assert np.array_equal(again.fit_transform([4, 2]), expected)
        assert np.array_equal(pickle.loads(pickle.dumps(embedder)).transform([4, 2]), expected)


NOT_NODES = "scikit-learn gives random numbers for X, which are not nodes of the graph"
CANNOT_HOLD = {
    **dict.fromkeys(
        [
            "check_fit_score_takes_y",
            "check_estimators_overwrite_params",
            "check_dont_overwrite_parameters",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_n_features_in_after_fitting",
            "check_positive_only_tag_during_fit",
            "check_estimators_dtypes",
            "check_dtype_object",
            "check_pipeline_consistency",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_transformer_data_not_an_array",
            "check_transformer_general",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_dict_unchanged",
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
            "check_fit2d_predict1d",
        ],
        NOT_NODES,
    ),
    "check_complex_data": "complex numbers are refused as what they are, no nodes, and not in scikit-learn's words",
    "check_estimators_empty_data_messages": "an empty X is refused in our words, with its shape",
    "check_estimators_nan_inf": "NaN is refused as what it is, no node, and not in scikit-learn's words",
    "check_fit2d_1sample": "X has one column; ten are refused in our words, with their shape",
}
COPIES_DIFFER = {"check_estimators_overwrite_params": "PyTorch pickles a tensor and its copy differently, which is compared"}


class AnyRows(NodeEmbedder):
    """Each row of numbers stands for a node, always the same one, so that scikit-learn can check everything else."""

    def fit(self, X: Any, y: Any = None) -> AnyRows:  # noqa: N803
        rows = check_array(X)
        super().fit(nodes_of(rows), y)
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        check_is_fitted(self)
        found: np.ndarray = super().transform(nodes_of(validate_data(self, X, reset=False)))
        return found


def nodes_of(rows: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.abs(np.floor(1000 * rows.sum(axis=1))).astype(int) % 40
    return found


def failed_checks(estimator: Any, expected: dict[str, str]) -> set[str]:
    found = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert len(found) > 30
    unexpected = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not unexpected, unexpected
    return {one["check_name"] for one in found if one["status"] == "xfail"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(small: Graph) -> None:
    assert failed_checks(NodeEmbedder("diffusion", graph=small), CANNOT_HOLD) == set(CANNOT_HOLD)
    assert failed_checks(AnyRows("diffusion", graph=small), COPIES_DIFFER) == set(COPIES_DIFFER)
