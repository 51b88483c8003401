from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from benchmarks.probe import propagated
from graphkin.errors import SettingError, SplitError
from graphkin.evaluation import logistic
from graphkin.evaluation import probe as module
from graphkin.evaluation.logistic import logistic_regressions, with_ones
from graphkin.evaluation.probe import (
    STRENGTHS,
    ProbeResult,
    probe,
    probe_adam,
    probe_sklearn,
    probe_torch,
    validation_accuracy,
)
from graphkin.graphs.splits import Split, random_split
from graphkin.support.randomness import generator
from tests.wording import refused

Way = Callable[[np.ndarray, np.ndarray, Split], ProbeResult]
FEW = (STRENGTHS[0], 1.0, STRENGTHS[-1])


def adam(rows: np.ndarray, labels: np.ndarray, split: Split) -> ProbeResult:
    """A tenth of the usual epochs, which is enough for small problems."""
    return probe_adam(rows, labels, split, epochs=300)


def clusters(nodes: int, classes: int, dims: int, *, spread: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(classes, size=nodes)
    labels[:classes] = np.arange(classes)
    return draw.normal(size=(classes, dims))[labels] + spread * draw.normal(size=(nodes, dims)), labels


def thirds(nodes: int) -> Split:
    """Train, validation and test in this order."""
    first, second, third = torch.arange(nodes).chunk(3)
    return Split(first, second, third)


def hard_cases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rows, labels = clusters(120, 3, 8)
    draw = np.random.default_rng(1)
    return {
        "plain": (rows, labels),
        "large": (100 * rows, labels),
        "small": (1e-4 * rows, labels),
        "separable": clusters(120, 3, 8, spread=1e-3),
        "constant features": (np.concatenate([rows, np.ones((120, 1)), np.zeros((120, 1))], axis=1), labels),
        "duplicate rows": (rows[:12].repeat(10, axis=0), labels[:12].repeat(10)),
        "contradicting rows": (rows[:12].repeat(10, axis=0), labels),
        "heavy tails": (draw.standard_cauchy(size=(120, 8)), labels),
        "nothing but zeros": (np.zeros((120, 2)), labels),
        "as many features as rows": (draw.normal(size=(30, 30)), labels[:30]),
        "more features than rows": (draw.normal(size=(30, 200)), labels[:30]),
        "two rows": (rows[:2], np.array([0, 1])),
        "two rows, one feature": (rows[:2, :1], np.array([0, 1])),
    }


def objective(rows: np.ndarray, positive: np.ndarray, strength: float, weights: np.ndarray, bias: float) -> float:
    values = rows @ weights + bias
    return float((weights @ weights + bias**2) / 2 + strength * np.logaddexp(0, np.where(positive, -values, values)).sum())


@pytest.mark.parametrize("name", hard_cases())
def test_the_solutions_are_those_of_liblinear(name: str) -> None:
    rows, labels = hard_cases()[name]
    targets = labels == np.unique(labels)[:, None]
    weights = logistic_regressions(torch.from_numpy(rows), torch.from_numpy(targets), FEW).numpy()
    assert weights.shape == (len(FEW), len(targets), rows.shape[1] + 1)
    for i, strength in enumerate(FEW):
        for c, positive in enumerate(targets):
            truth = LogisticRegression(solver="liblinear", C=strength, tol=1e-10, max_iter=10_000, random_state=0)
            truth.fit(rows, positive)
            expected, bias = truth.coef_[0], float(truth.intercept_[0])
            found, found_bias = weights[i, c, :-1], float(weights[i, c, -1])
            best = objective(rows, positive, strength, expected, bias)
            assert objective(rows, positive, strength, found, found_bias) <= best + 1e-6
            error = np.linalg.norm(weights[i, c] - [*expected, bias])
            assert error <= 1e-3 * np.linalg.norm([*expected, bias]) + 1e-12
            values = rows @ expected + bias
            assert np.abs(rows @ found + found_bias - values).max() <= 1e-3 * np.abs(values).max() + 1e-12


def test_problems_do_not_depend_on_those_solved_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = clusters(90, 4, 6)
    targets = torch.from_numpy(labels == np.arange(4)[:, None])
    together = logistic_regressions(torch.from_numpy(rows), targets, STRENGTHS)
    monkeypatch.setattr(logistic, "MEMORY", 8 * 10 * 97 * 3)
    apart = logistic_regressions(torch.from_numpy(rows), targets, STRENGTHS)
    assert torch.allclose(together, apart, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "dims", "spread"), [(2, 5, 1.0), (3, 20, 2.0), (6, 40, 2.0), (4, 150, 3.0), (3, 4, 0.01)])
def test_same_choice_as_sklearn(classes: int, dims: int, spread: float) -> None:
    for seed in range(2):
        rows, labels = clusters(600, classes, dims, spread=spread, seed=seed)
        split = random_split(600, train=0.2, val=0.2, seed=seed)
        expected, found = probe_sklearn(rows, labels, split), probe_torch(rows, labels, split)
        assert abs(found.test - expected.test) <= 0.3
        assert abs(found.val - expected.val) <= 0.3


@pytest.mark.parametrize("way", [probe_sklearn, probe_torch])
def test_ties_in_validation_accuracy_go_to_the_lower_log_loss(way: Way) -> None:
    """Perfectly separable classes: every C ranks them right, and the underfitted ones must not win."""
    rows = np.array([[1.0, 0.01 * i] if i % 2 else [-1.0, 0.01 * i] for i in range(60)])
    assert way(rows, np.arange(60) % 2, thirds(60)) == (100.0, 100.0, STRENGTHS[-1])


@pytest.mark.parametrize("way", [probe_sklearn, probe_torch, adam])
def test_a_class_that_training_does_not_show_is_never_predicted(way: Way) -> None:
    labels = np.arange(90) % 3
    labels[:30] = np.arange(30) % 2 * 2
    rows = np.eye(3)[labels] + 0.01 * np.random.default_rng(0).normal(size=(90, 3))
    result = way(rows, labels, thirds(90))
    assert result.test == pytest.approx(100 * (labels[60:] != 1).mean())
    assert result.val == pytest.approx(100 * (labels[30:60] != 1).mean())
    above = way(rows, np.where(labels == 1, 7, labels), thirds(90))
    assert above == result


@pytest.mark.parametrize("way", [probe_sklearn, probe_torch, adam])
def test_labels_need_not_count_from_zero(way: Way) -> None:
    rows, labels = clusters(90, 2, 4)
    assert way(rows, 3 + 2 * labels, thirds(90)) == way(rows, labels, thirds(90))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("train", [3, 4, 6])
def test_tiny_training_sets(train: int, classes: int) -> None:
    rows, labels = clusters(60, classes, 5, spread=0.3)
    order = torch.arange(60)
    split = Split(order[:train], order[train:30], order[30:])
    expected, found = probe_sklearn(rows, labels, split), probe_torch(rows, labels, split)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("way", [probe, probe_sklearn, probe_torch, adam])
def test_one_class_cannot_be_told_from_others(way: Way) -> None:
    rows, labels = clusters(30, 3, 4)
    labels[:10] = 2
    with refused(SplitError, "2 classes", "1", "10 nodes"):
        way(rows, labels, thirds(30))


@pytest.mark.slow
@pytest.mark.parametrize("way", [probe, probe_sklearn, probe_torch, adam])
def test_shuffling_test_labels_changes_nothing_but_the_test_score(way: Way) -> None:
    rows, labels = clusters(300, 4, 10)
    split = random_split(300, train=0.2, val=0.2)
    shuffled = labels.copy()
    test = split.test.numpy()
    shuffled[test] = np.random.default_rng(0).permutation(labels[test])
    score, val, strength = way(rows, labels, split)
    other_score, other_val, other_strength = way(rows, shuffled, split)
    assert (val, strength) == (other_val, other_strength)
    assert score > other_score + 10


@pytest.mark.parametrize("sparse", [False, True])
def test_the_validation_accuracy_alone_is_that_of_the_probe(sparse: bool) -> None:
    rows, labels = clusters(90, 3, 8, spread=2.0)
    split = thirds(90)
    hidden = labels.copy()
    hidden[split.test.numpy()] = -1
    given = csr_matrix(rows) if sparse else rows
    assert validation_accuracy(given, hidden, split) == probe(given, labels, split).val


@pytest.mark.parametrize("way", [probe_sklearn, probe_torch, adam])
def test_probes_repeat_and_leave_the_global_random_state_alone(way: Way) -> None:
    rows, labels = clusters(90, 3, 5)
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]
    assert way(rows, labels, thirds(90)) == way(rows, labels, thirds(90))
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.random.get_state()[1].tolist() == numpy_before  # type: ignore[index]


def test_who_solves_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """liblinear, where both features and training rows are many; of sparse rows fewer are many."""
    asked: list[str] = []
    for name in ("probe_sklearn", "probe_torch"):
        monkeypatch.setattr(module, name, lambda *_, name=name: asked.append(name))
    monkeypatch.setattr(module, "WIDEST", 9)
    monkeypatch.setattr(module, "WIDEST_SPARSE", 5)
    labels = np.arange(60) % 2
    few = csr_matrix(np.eye(60, 40))
    for nodes, case in ((60, np.ones((60, 9))), (60, np.ones((60, 10))), (27, np.ones((60, 40)))):
        probe(case, labels, thirds(nodes))
    assert asked == ["probe_torch", "probe_sklearn", "probe_torch"]
    asked.clear()
    for nodes, case in ((15, few), (18, few), (27, csr_matrix(np.ones((60, 40)))), (30, csr_matrix(np.ones((60, 40))))):
        probe(case, labels, thirds(nodes))
    assert asked == ["probe_torch", "probe_sklearn", "probe_torch", "probe_sklearn"]


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
@pytest.mark.parametrize("name", ["wide", "short of rank", "zeros", "one class against another"])
def test_wide_rows_are_solved_in_the_span_of_the_training_rows(name: str, kind: Callable[[np.ndarray], Any]) -> None:
    """With more features than rows, where the gradient in all features must vanish, too."""
    rows, labels = clusters(90, 2 if name.startswith("one") else 4, 200, spread=3.0)
    if name == "short of rank":
        rows[:30] = rows[:10].repeat(3, axis=0)
    if name == "zeros":
        rows[:30] = 0
    targets = torch.from_numpy(labels[:30] == np.unique(labels)[:, None])
    seen, signs = with_ones(torch.from_numpy(rows[:30])), 2 * targets.double() - 1
    weights = logistic_regressions(seen[:, :-1], targets, STRENGTHS)
    for strength, solved in zip(STRENGTHS, weights, strict=True):
        wrong = (-signs * (solved @ seen.T)).sigmoid()
        gradient = solved - strength * (signs * wrong) @ seen
        assert (gradient.norm(dim=1) <= 1e-5 * solved.norm(dim=1) + 1e-12).all()
    scores, truth = (way(kind(rows), labels, thirds(90))[:2] for way in (probe_torch, probe_sklearn))
    assert scores == pytest.approx(truth, abs=4)


@pytest.mark.slow
@pytest.mark.parametrize("way", [probe, probe_sklearn, probe_torch, adam])
def test_sparse_rows_give_the_same_scores(way: Way) -> None:
    rows, labels = clusters(120, 3, 6)
    rows[np.abs(rows) < 0.5] = 0
    dense, sparse = way(rows, labels, thirds(120)), way(csr_matrix(rows), labels, thirds(120))
    assert sparse.test == pytest.approx(dense.test, abs=0.3)


def test_adam_is_the_plain_training_loop() -> None:
    rows, labels = clusters(150, 3, 6, spread=2)
    split = random_split(150, train=0.3, val=0.3)
    x, y = torch.from_numpy(rows).float(), torch.from_numpy(labels)
    model = torch.nn.Linear(6, 3)
    draws = (2 * torch.rand(3, 7, generator=generator(5, "probe")) - 1) / 6**0.5
    model.weight.data, model.bias.data = draws[:, :-1].clone(), draws[:, -1].clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    best, at_best = -1.0, -1.0
    for epoch in range(1, 301):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[split.train]), y[split.train]).backward()
        optimizer.step()
        if epoch % 20 == 0:
            right = (model(x).argmax(1) == y).double()
            val, test = (100 * float(right[part].mean()) for part in (split.val, split.test))
            if val > best:
                best, at_best = val, test
    found = probe_adam(rows, labels, split, epochs=300, seed=5)
    assert found == pytest.approx((at_best, best, float("inf")))


def test_adam_settings() -> None:
    rows, labels = clusters(60, 3, 4)
    assert probe_adam(rows, labels, thirds(60), epochs=3).val >= 0
    with refused(SettingError, "epochs", "1", "0"):
        probe_adam(rows, labels, thirds(60), epochs=0)
    with refused(SettingError, "every", "1", "0"):
        probe_adam(rows, labels, thirds(60), every=0)


@pytest.mark.data
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_same_accuracy_as_sklearn_on_the_papers_graphs(data_root: Path, name: str) -> None:
    rows, labels = propagated(data_root, name, 128)
    splits = [random_split(len(labels), seed=seed) for seed in range(3)]
    expected, found = (np.mean([way(rows, labels, split).test for split in splits]) for way in (probe_sklearn, probe_torch))
    print(f"{name}: sklearn {expected:.2f} %, torch {found:.2f} %")
    assert abs(found - expected) <= 0.3


@pytest.mark.gpu
@pytest.mark.parametrize("dims", [20, 300])
def test_same_result_on_a_gpu(dims: int) -> None:
    rows, labels = clusters(900, 5, dims, spread=3)
    split = random_split(900, train=0.2, val=0.2)
    assert probe(rows, labels, split, device="cuda") == pytest.approx(probe(rows, labels, split), abs=0.3)
