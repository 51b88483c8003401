from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch_geometric.data import Data

from graphkin import METHODS, Graph, NodeEmbedder, evaluate, fit
from graphkin.errors import SettingError


def test_it_is_fit_and_embed(small: Graph) -> None:
    embedder = NodeEmbedder("grace+", epochs=3, seed=2, hidden=8)
    found = embedder.fit_transform(small)
    expected = fit(small, "grace+", epochs=3, seed=2, hidden=8).embed(small).numpy()
    assert np.array_equal(found, expected)
    assert np.array_equal(embedder.transform(small), expected)
    assert embedder.n_features_in_ == 16


def test_settings_are_parameters(small: Graph) -> None:
    embedder = NodeEmbedder("gca+", epochs=1, beta=0.7)
    assert embedder.get_params() == {
        "method": "gca+",
        "graph": None,
        "preset": None,
        "random_state": 0,
        "seed": None,
        "device": "auto",
        "progress": "none",
        "epochs": 1,
        "beta": 0.7,
    }
    assert embedder.set_params(beta=0.2, hidden=8, method="grace+") is embedder
    trained = embedder.fit(small).fitted_.method
    assert trained.name == "grace+"
    assert (trained.settings()["beta"], trained.settings()["hidden"], trained.settings()["epochs"]) == (0.2, 8, 1)
    assert "beta=0.2" in repr(embedder) and "hidden=8" in repr(embedder)
    assert embedder.beta == 0.2


def test_no_setting_of_a_method_hides_what_an_embedder_has() -> None:
    names = {name for method in METHODS.values() for name in method.settings()}
    assert "beta" in names and not names & set(dir(NodeEmbedder()))


def test_clones_are_alike_and_independent(small: Graph) -> None:
    embedder = NodeEmbedder("gca", epochs=2, hidden=8).set_params(random_state=5)
    copy = clone(embedder)
    assert copy.get_params() == embedder.get_params()
    assert np.array_equal(copy.fit_transform(small), embedder.fit_transform(small))
    copy.set_params(hidden=4)
    assert embedder.get_params()["hidden"] == 8


def test_a_grid_over_a_graph_in_a_list_of_one(small: Graph) -> None:
    """scikit-learn indexes X, so without ``graph=`` a grid search takes the graph in a list."""

    def score(estimator: Any, graphs: list[Graph], y: object = None) -> float:
        return evaluate(estimator.transform(graphs), graphs[0], protocol="public").mean

    pipeline = make_pipeline(FunctionTransformer(lambda graphs: graphs[0]), NodeEmbedder("grace+", epochs=1, hidden=8))
    search = GridSearchCV(pipeline, {"nodeembedder__hidden": [4, 8]}, scoring=score, cv=[([0], [0])], refit=False)
    search.fit([small])
    assert [point["nodeembedder__hidden"] for point in search.cv_results_["params"]] == [4, 8]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_random_states_are_those_of_scikit_learn(small: Graph) -> None:
    def embedded(**given: Any) -> np.ndarray:
        found: np.ndarray = NodeEmbedder("grace", epochs=1, hidden=4, **given).fit_transform(small)
        return found

    assert np.array_equal(embedded(), embedded(seed=0))
    assert np.array_equal(embedded(random_state=7), embedded(seed=7))
    assert np.array_equal(embedded(random_state=np.int64(7)), embedded(seed=7))
    one, other = (np.random.RandomState(3) for _ in range(2))
    assert np.array_equal(embedded(random_state=one), embedded(random_state=other))
    assert not np.array_equal(embedded(random_state=one), embedded(random_state=np.random.RandomState(3))), "drawn anew"
    before: Any = np.random.get_state()
    try:
        np.random.seed(3)
        assert np.array_equal(embedded(random_state=None), embedded(random_state=np.random.RandomState(3)))
    finally:
        np.random.set_state(before)


def test_a_classifier_follows_it(small: Graph) -> None:
    assert small.y is not None
    data = Data(x=small.x, edge_index=small.edge_index)
    pipeline = make_pipeline(NodeEmbedder("grace+", epochs=40, hidden=16), LogisticRegression(C=100))
    pipeline.fit(data, small.y.numpy())
    assert pipeline.score(data, small.y.numpy()) > 0.9


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"method": "grece"}, ("method", "'grece'", "'grace'")),
        ({"bta": 0.5}, ("'bta'", "'beta'")),
        ({"beta": 2}, ("beta", "found 2")),
        ({"settings": {"beta": 0.5}}, ("settings", "beta=0.7")),
        ({"seed": 1, "random_state": 2}, ("seed", "random_state", "1 and 2")),
        ({"seed": -1}, ("seed", "-1")),
        ({"random_state": -1}, ("random_state", "-1")),
        ({"random_state": "x"}, ("random_state", "'x'")),
    ],
)
def test_mistakes_are_reported_by_fit_and_not_before(small: Graph, given: dict[str, Any], facts: tuple[str, ...]) -> None:
    embedder = clone(NodeEmbedder(**given))
    with pytest.raises(SettingError) as caught:
        embedder.fit(small)
    assert all(fact in str(caught.value) for fact in facts), caught.value


def test_a_graph_is_embedded_after_fit() -> None:
    with pytest.raises(NotFittedError):
        NodeEmbedder().transform(Graph.from_arrays(np.eye(2), [[0], [1]]))
