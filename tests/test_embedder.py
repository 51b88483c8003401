from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch_geometric.data import Data

from graphkin import Graph, NodeEmbedder, fit
from graphkin.errors import SettingError


def test_it_is_fit_and_embed(small: Graph) -> None:
    embedder = NodeEmbedder("grace+", epochs=3, seed=2, settings={"hidden": 8})
    found = embedder.fit_transform(small)
    expected = fit(small, "grace+", epochs=3, seed=2, hidden=8).embed(small).numpy()
    assert np.array_equal(found, expected)
    assert np.array_equal(embedder.transform(small), expected)
    assert embedder.n_features_in_ == 16


def test_parameters_and_clones(small: Graph) -> None:
    embedder = NodeEmbedder("gca", epochs=2, settings={"hidden": 8})
    assert embedder.get_params()["method"] == "gca"
    copy = clone(embedder.set_params(seed=5))
    assert copy.get_params() == embedder.get_params()
    assert np.array_equal(copy.fit_transform(small), embedder.fit_transform(small))


def test_a_classifier_stands_behind_it(small: Graph) -> None:
    assert small.y is not None
    data = Data(x=small.x, edge_index=small.edge_index)
    embedder = NodeEmbedder("grace+", epochs=40, settings={"hidden": 16})
    pipeline = make_pipeline(embedder, LogisticRegression(C=100))
    pipeline.fit(data, small.y.numpy())
    assert pipeline.score(data, small.y.numpy()) > 0.9


def test_mistakes_are_told_in_fit_and_not_before(small: Graph) -> None:
    embedder = NodeEmbedder("grece")
    with pytest.raises(SettingError, match="Did you mean 'grace'"):
        embedder.fit(small)
    with pytest.raises(NotFittedError):
        NodeEmbedder().transform(small)
