from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from graphkin import Graph, evaluate, fit, method_named
from graphkin.errors import GraphError, SettingError, SplitError
from graphkin.evaluation.baselines import BASELINES, baseline, propagated_features, raw_features, untrained
from graphkin.evaluation.collapse import collapse, mean_cosine
from graphkin.evaluation.own_classifier import own_accuracy
from graphkin.graphs.splits import Split, few_labels, random_split
from graphkin.models.views import whole_graph
from tests.wording import refused


def test_splits_are_disjoint_and_of_the_stated_size() -> None:
    for seed in range(5):
        split = random_split(2708, seed=seed)
        assert [len(part) for part in (split.train, split.val, split.test)] == [271, 271, 2166]
        assert torch.cat([split.train, split.val, split.test]).sort().values.tolist() == list(range(2708))
    assert not torch.equal(random_split(50, seed=0).train, random_split(50, seed=1).train)
    assert torch.equal(random_split(50, seed=3).train, random_split(50, seed=3).train)


def test_refused_splits() -> None:
    with refused(SplitError, "train 0.5", "val 0.6", "test -0.1"):
        random_split(100, train=0.5, val=0.6)
    with refused(SplitError, "train 0.1", "val 0.1", "test 0.5"):
        random_split(100, train=0.1, val=0.1, test=0.5)
    with refused(SplitError, "4 nodes", "0.1/0.1/0.8"):
        random_split(4, train=0.1, val=0.1)
    with refused(SplitError, "disjoint", "1 node"):
        Split(torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([2]))
    with refused(SplitError, "val", "empty"):
        Split(torch.tensor([0]), torch.tensor([], dtype=torch.long), torch.tensor([2]))


def test_ratios_share_validation_and_test() -> None:
    whole, part = random_split(1000, seed=3), random_split(1000, ratio=0.02, seed=3)
    assert part.sizes == {"train": 20, "val": 100, "test": 800}
    assert set(part.train.tolist()) < set(whole.train.tolist())
    assert torch.equal(part.test, whole.test)
    assert torch.equal(part.val, whole.val)
    with refused(SplitError, "ratio", "0.1", "0.2"):
        random_split(1000, ratio=0.2)


def test_few_labels(cora: Graph) -> None:
    assert cora.y is not None
    (public,) = cora.public_splits
    for per_class in (1, 5, 9):
        split = few_labels(public, cora.y, per_class, seed=1)
        assert torch.bincount(cora.y[split.train]).tolist() == [per_class] * 7
        assert torch.equal(split.test, public.test)
    assert not torch.equal(few_labels(public, cora.y, 5, 0).train, few_labels(public, cora.y, 5, 1).train)
    with refused(SplitError, "21", "class 0", "20"):
        few_labels(public, cora.y, 21)


def test_splits_know_what_they_are_and_round_trip() -> None:
    split = random_split(50, seed=4)
    assert (split.name, split.seed, split.sizes) == ("random 0.1/0.1/0.8", 4, {"train": 5, "val": 5, "test": 40})
    again = Split.from_json(split.to_json())
    assert (again.name, again.seed) == (split.name, split.seed)
    assert all(torch.equal(a, b) for a, b in zip(again.parts().values(), split.parts().values(), strict=True))
    for text in ("", "[]", "{}", '{"train": "x"}'):
        with refused(SplitError, "train", "val", "test", "name", "seed", "sizes"):
            Split.from_json(text)
    with refused(SplitError, "'val': 6", "'val': 5"):
        Split.from_json(split.to_json().replace('"val": 5', '"val": 6'))


def test_refused_parts_of_splits() -> None:
    labels = torch.tensor([0, 0, 1, 2])
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2, 3]))
    with refused(SplitError, "class 1", "test"):
        split.check(4, labels)
    with refused(SplitError, "0..2", "3"):
        split.check(3)
    split.check(4)
    with refused(SplitError, "train", ">= 0"):
        Split(torch.tensor([-1]), torch.tensor([1]), torch.tensor([2]))


@pytest.mark.parametrize("protocol", ["grace", "gca", "public", "few-labels"])
def test_shuffling_test_labels_changes_nothing_but_the_score(cora: Graph, protocol: str) -> None:
    """Same validation accuracy: the labels of the test set choose nothing."""
    assert cora.y is not None
    split = random_split(2708, seed=0) if protocol in ("grace", "gca") else cora.public_splits[0]
    labels = cora.y.clone()
    order = torch.randperm(split.test.numel(), generator=torch.Generator().manual_seed(0))
    labels[split.test] = labels[split.test][order]
    rows: Any = propagated_features(cora)
    rows = rows.toarray()[:, :60]
    one, other = (evaluate(rows, graph, protocol=protocol, splits=1) for graph in (cora, replace(cora, y=labels)))
    assert one.values["val_accuracy"] == other.values["val_accuracy"]
    assert one.mean > other.mean + 10


def test_own_splits_are_checked(small: Graph) -> None:
    assert small.y is not None
    perfect = torch.nn.functional.one_hot(small.y, 2).double()
    good = Split(torch.tensor([0, 1, 20, 21]), torch.tensor([2, 22]), torch.arange(5, 30)[torch.arange(5, 30) > 22])
    assert evaluate(perfect, small, splits=[good]).test == (100.0,)
    unseen = Split(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3, 30]))
    for protocol in ("grace", "gca"):
        with refused(SplitError, "class 1"):
            evaluate(perfect, small, splits=[good, unseen], protocol=protocol)
    with refused(SplitError, "0..39", "99"):
        evaluate(perfect, small, splits=[Split(torch.tensor([0, 20]), torch.tensor([2]), torch.tensor([99]))])
    with refused(SplitError, "label", "2"):
        evaluate(perfect, replace(small, y=torch.where(torch.arange(40) < 2, -1, small.y)), splits=[good])


def test_clustering_and_search(small: Graph) -> None:
    assert small.y is not None
    perfect = torch.nn.functional.one_hot(small.y, 2) + 0.01 * torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    clusters = evaluate(perfect, small, protocol="clustering", splits=2)
    assert clusters.values == {"nmi": (100.0, 100.0), "ari": (100.0, 100.0)}
    assert evaluate(perfect, small, protocol="search").values == {"sim@5": (100.0,), "sim@10": (100.0,)}
    noise = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    assert evaluate(noise, small, protocol="search").mean < 75
    with refused(SettingError, "search", "10", "8"):
        evaluate(noise, replace(small, y=torch.where(torch.arange(40) < 8, torch.arange(40) % 2, -1)), protocol="search")


def test_search_is_the_share_of_nearest_neighbours_of_the_class(small: Graph) -> None:
    rows = torch.rand(40, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert small.y is not None
    unit = torch.nn.functional.normalize(rows, dim=1)
    shares = []
    for i in range(40):
        order = sorted((j for j in range(40) if j != i), key=lambda j: -float(unit[i] @ unit[j]))[:5]
        shares.append(sum(int(small.y[j] == small.y[i]) for j in order) / 5)
    assert evaluate(rows, small, protocol="search").mean == pytest.approx(100 * sum(shares) / 40)


def test_nodes_without_a_label_take_no_part(small: Graph) -> None:
    assert small.y is not None
    partly = replace(small, y=torch.where(torch.arange(40) % 4 == 0, -1, small.y))
    perfect = torch.nn.functional.one_hot(small.y, 2).double()
    for protocol in ("grace", "gca"):
        assert evaluate(perfect, partly, protocol=protocol, splits=1, train=0.3, val=0.3).mean == 100
    assert evaluate(perfect, partly, protocol="clustering", splits=1).mean == 100


def test_public_needs_a_public_split(small: Graph) -> None:
    assert small.public_splits[0].sizes == {"train": 10, "val": 10, "test": 20}
    with refused(SplitError, "small", "no public split"):
        evaluate(torch.ones(40, 2), replace(small, public_splits=()), protocol="public")


def test_scores(small: Graph) -> None:
    assert small.y is not None
    perfect = torch.nn.functional.one_hot(small.y, 2).float()
    scores = evaluate(perfect, small, splits=3, train=0.3, val=0.2)
    assert scores.test == (100.0, 100.0, 100.0)
    assert (scores.mean, scores.std) == (100.0, 0.0)
    noise = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    uneven = evaluate(noise, small, splits=4, train=0.3, val=0.2)
    assert uneven.std == pytest.approx(float(np.std(uneven.test, ddof=1)))
    assert str(uneven).endswith("(4 times)")
    assert evaluate(perfect.numpy(), small, splits=1, train=0.3, val=0.2).std == 0


def test_scale_of_rows_does_not_matter(small: Graph) -> None:
    noise = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    stretched = noise * torch.linspace(0.1, 50, 40)[:, None]
    options = {"splits": 2, "train": 0.3, "val": 0.2}
    one, other = evaluate(noise, small, **options), evaluate(stretched, small, **options)  # type: ignore[arg-type]
    assert one.test == other.test


@pytest.mark.slow
def test_rows_that_cost_nothing(cora: Graph, small: Graph) -> None:
    assert raw_features(cora).shape == (2708, 1433)
    method = method_named("grace", "cora")
    rows: dict[str, Any] = {name: baseline(name, cora, method) for name in BASELINES}
    assert list(rows) == ["raw features", "propagated features", "untrained encoder"], "names in stored runs"
    adjacency = whole_graph(cora).adjacency.to_dense().double().numpy()
    expected = adjacency @ (adjacency @ cora.x.to_dense().double().numpy()[:, ::40])
    np.testing.assert_allclose(rows["propagated features"].toarray()[:, ::40], expected, rtol=1e-5, atol=1e-6)
    assert isinstance(propagated_features(small), torch.Tensor)
    embeddings = untrained(cora, method, seed=0)
    assert embeddings.shape == (2708, 128)
    assert torch.equal(embeddings, untrained(cora, method, seed=0))
    one_epoch = fit(cora, "grace", epochs=1, learning_rate=1e-12)
    torch.testing.assert_close(one_epoch.embed(cora), embeddings, rtol=1e-4, atol=1e-6)


def test_own_accuracy(small: Graph) -> None:
    fitted = fit(small, "graph-mlp", epochs=60, hidden=16)
    assert own_accuracy(fitted, small) > 80
    assert small.y is not None and small.val_mask is not None
    right = fitted.predict(small) == small.y
    assert own_accuracy(fitted, small, "val") == pytest.approx(100 * float(right[small.val_mask].double().mean()))
    with refused(GraphError, "labels", "test_mask"):
        own_accuracy(fitted, replace(small, test_mask=None))
    with refused(GraphError, "val_mask", "none"):
        own_accuracy(fitted, replace(small, y=torch.where(small.val_mask, -1, small.y)), "val")


def test_refused(small: Graph) -> None:
    rows = torch.ones(40, 2)
    assert small.y is not None
    with refused(SettingError, "'grcae'", "'grace'"):
        evaluate(rows, small, protocol="grcae")
    with refused(SettingError, "splits", "1", "0"):
        evaluate(rows, small, splits=0)
    with refused(SettingError, "40", "(39, 2)"):
        evaluate(rows[1:], small)
    with refused(SettingError, "finite"):
        evaluate(rows * float("nan"), small)
    with refused(SettingError, "finite"):
        evaluate(np.full((40, 2), "a"), small)
    with refused(GraphError, "labels", "none"):
        evaluate(rows, replace(small, y=None))
    with refused(GraphError, "2 classes", "0", "40 nodes"):
        evaluate(rows, replace(small, y=torch.full_like(small.y, -1)))
    with refused(GraphError, "2 classes", "1"):
        evaluate(rows, replace(small, y=torch.zeros_like(small.y)))
    lopsided = torch.zeros_like(small.y)
    lopsided[0] = 1
    with refused(SplitError, "2 classes", "1"):
        evaluate(rows, replace(small, y=lopsided), splits=5)


def test_mean_cosine_is_that_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.evaluation.collapse.ROWS_AT_A_TIME", 3)
    rows = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    unit = rows / rows.norm(dim=1, keepdim=True)
    assert mean_cosine(rows) == pytest.approx(float((unit @ unit.T).mean()), abs=1e-6)
    assert mean_cosine(torch.ones(4, 2) * torch.arange(1, 5)[:, None]) == pytest.approx(1)


def test_a_collapse_is_what_training_did(small: Graph) -> None:
    calm, wild = (fit(small, "grace", epochs=1, hidden=8, learning_rate=rate) for rate in (0.01, 0.3))
    assert collapse(calm.embed(small), calm, small) is None
    said = collapse(wild.embed(small), wild, small)
    assert said is not None and "collapsed" in said and "learning_rate" in said and "0.3" in said
    assert f"{mean_cosine(wild.embed(small)):.4f}" in said
    level = replace(small, x=torch.rand(small.x.shape, generator=torch.Generator().manual_seed(0)) * 0.1 + 1)
    untouched = fit(level, "grace", epochs=1, hidden=8, learning_rate=1e-9)
    assert 1e-6 < 1 - mean_cosine(untouched.embed(level)) < 1e-3
    assert collapse(untouched.embed(level), untouched, level) is None
