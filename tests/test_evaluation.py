from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from graphkin import Graph, evaluate, evaluation, fit, method_named
from graphkin.errors import GraphError, SettingError, SplitError
from graphkin.evaluation import own_accuracy, probe, raw_features, untrained
from graphkin.splits import Split, random_split


def test_splits_are_disjoint_and_of_the_stated_size() -> None:
    for seed in range(5):
        split = random_split(2708, seed=seed)
        assert [len(part) for part in (split.train, split.val, split.test)] == [271, 271, 2166]
        assert torch.cat([split.train, split.val, split.test]).sort().values.tolist() == list(range(2708))
    assert not torch.equal(random_split(50, seed=0).train, random_split(50, seed=1).train)
    assert torch.equal(random_split(50, seed=3).train, random_split(50, seed=3).train)


def test_refused_splits() -> None:
    with pytest.raises(SplitError, match=r"add up to 1, found train 0\.5, val 0\.6, test -0\.1"):
        random_split(100, train=0.5, val=0.6)
    with pytest.raises(SplitError, match=r"add up to 1, found train 0\.1, val 0\.1, test 0\.5"):
        random_split(100, train=0.1, val=0.1, test=0.5)
    with pytest.raises(SplitError, match="4 nodes are too few"):
        random_split(4, train=0.1, val=0.1)
    with pytest.raises(SplitError, match="must be disjoint, found 1 nodes more than once"):
        Split(torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([2]))
    with pytest.raises(SplitError, match="the val set of a split must not be empty"):
        Split(torch.tensor([0]), torch.tensor([], dtype=torch.long), torch.tensor([2]))


def test_shuffling_test_labels_changes_nothing_but_the_score(cora: Graph) -> None:
    """Same validation accuracy, same classifier: the labels of the test set choose nothing."""
    assert cora.y is not None
    rows = raw_features(cora).double().numpy()[:600]
    labels = cora.y.numpy()[:600]
    split = random_split(600, train=0.2, val=0.2, seed=0)
    shuffled = labels.copy()
    test = split.test.numpy()
    shuffled[test] = np.random.default_rng(0).permutation(labels[test])
    score, val = probe(rows, labels, split)
    other_score, other_val = probe(rows, shuffled, split)
    assert val == other_val
    assert score > other_score + 10


def test_ties_in_validation_accuracy_go_to_the_lower_log_loss() -> None:
    """Perfectly separable classes: every C ranks them right, and the underfitted ones must not win."""
    rows = np.array([[1.0, 0.01 * i] if i % 2 else [-1.0, 0.01 * i] for i in range(60)])
    labels = np.arange(60) % 2
    split = Split(torch.arange(20), torch.arange(20, 40), torch.arange(40, 60))
    assert probe(rows, labels, split) == (100.0, 100.0)
    weak, strong = (
        evaluation._quality(OneVsRestClassifier(LogisticRegression(solver="liblinear", C=c)).fit(rows, labels), rows, labels)
        for c in (min(evaluation.STRENGTHS), max(evaluation.STRENGTHS))
    )
    assert weak[0] == strong[0] == 1.0
    assert strong > weak


def test_scores(small: Graph) -> None:
    assert small.y is not None
    perfect = torch.nn.functional.one_hot(small.y, 2).float()
    scores = evaluate(perfect, small, splits=3, train=0.3, val=0.2)
    assert scores.test == (100.0, 100.0, 100.0)
    assert (scores.mean, scores.std) == (100.0, 0.0)
    noise = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    uneven = evaluate(noise, small, splits=4, train=0.3, val=0.2)
    assert uneven.std == pytest.approx(float(np.std(uneven.test, ddof=1)))
    assert str(uneven).endswith("(4 splits)")
    assert evaluate(perfect.numpy(), small, splits=1, train=0.3, val=0.2).std == 0


def test_scale_of_rows_does_not_matter(small: Graph) -> None:
    noise = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    stretched = noise * torch.linspace(0.1, 50, 40)[:, None]
    options = {"splits": 2, "train": 0.3, "val": 0.2}
    one, other = evaluate(noise, small, **options), evaluate(stretched, small, **options)  # type: ignore[arg-type]
    assert one.test == other.test


def test_rows_that_cost_nothing(cora: Graph) -> None:
    assert raw_features(cora).shape == (2708, 1433)
    method = method_named("grace", "cora")
    embeddings = untrained(cora, method, seed=0)
    assert embeddings.shape == (2708, 128)
    assert torch.equal(embeddings, untrained(cora, method, seed=0))
    one_epoch = fit(cora, "grace", epochs=1, learning_rate=1e-12)
    torch.testing.assert_close(one_epoch.embed(cora), embeddings, rtol=1e-4, atol=1e-6)


def test_own_accuracy(small: Graph) -> None:
    fitted = fit(small, "graph-mlp", epochs=60, hidden=16)
    assert own_accuracy(fitted, small) > 80
    with pytest.raises(GraphError, match="needs labels and a test_mask"):
        own_accuracy(fitted, replace(small, test_mask=None))


def test_refused(small: Graph) -> None:
    rows = torch.ones(40, 2)
    assert small.y is not None
    with pytest.raises(SettingError, match="unknown protocol 'grcae'"):
        evaluate(rows, small, protocol="grcae")
    with pytest.raises(SettingError, match="splits must be a whole number >= 1"):
        evaluate(rows, small, splits=0)
    with pytest.raises(SettingError, match=r"one row for each of the 40 nodes, found shape \(39, 2\)"):
        evaluate(rows[1:], small)
    with pytest.raises(SettingError, match="must be finite numbers"):
        evaluate(rows * float("nan"), small)
    with pytest.raises(SettingError, match="must be finite numbers"):
        evaluate(np.full((40, 2), "a"), small)
    with pytest.raises(GraphError, match="needs labels, and the graph has none"):
        evaluate(rows, replace(small, y=None))
    with pytest.raises(GraphError, match="found 40 without one"):
        evaluate(rows, replace(small, y=torch.full_like(small.y, -1)))
    with pytest.raises(GraphError, match="at least 2 classes, found 1"):
        evaluate(rows, replace(small, y=torch.zeros_like(small.y)))
    lopsided = torch.zeros_like(small.y)
    lopsided[0] = 1
    with pytest.raises(SplitError, match="must hold at least 2 classes, found 1"):
        evaluate(rows, replace(small, y=lopsided), splits=5)
