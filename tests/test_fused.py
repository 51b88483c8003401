"""The Triton kernels: on an NVIDIA GPU where there is one, and through Triton's interpreter otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from graphkin import Graph, fit, fit_repeats
from graphkin.errors import SettingError
from graphkin.objectives.kernels import Problem, choose, pooled, two_view_loss
from graphkin.objectives.kernels.fused import needs, pairs, tiles
from graphkin.similarity import Blend, FeatureCosine, NodeSimilarity, Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.training.plan import plan
from graphkin.weights import AllAlike, Attraction, Candidates, NodeWeights, OwnOnly, PositiveWeights, Repulsion
from tests.cases import unit
from tests.test_kernels import value_and_gradient

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KINDS = ["base", "p", "n", "plus", "one temperature", "linear", "steep"]
SMALL, LARGE = [(1, 3), (2, 3), (31, 100), (70, 16)], [(257, 3), (257, 100)]
CASES = [
    *((*shape, kind) for shape in SMALL for kind in KINDS),
    *(pytest.param(*shape, kind, marks=pytest.mark.slow) for shape in LARGE for kind in ("base", "plus")),
]


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symmetric(n: int, seed: int = 0) -> Tensor:
    half = torch.rand(n, n, generator=draw(seed), dtype=torch.float64) ** 6
    return (half + half.T) / 2


def embeddings(n: int, d: int) -> tuple[Tensor, Tensor]:
    u = unit(torch.randn(n, d, generator=draw(n), dtype=torch.float64))
    return u, unit(u + torch.randn(n, d, generator=draw(d), dtype=torch.float64))


def weights_of(similarity: NodeSimilarity, kind: str) -> NodeWeights:
    """ "linear" is τ → ∞, where e^{s/τ} − 1 would cancel; "steep" is s/τ far beyond the range of float32."""
    n, device = similarity.num_nodes, similarity.device
    dtype = similarity.dtype
    per_anchor = torch.linspace(0.1, 1, n, dtype=dtype, device=device)
    taus = {"one temperature": (0.2, 0.3), "linear": (1e30, 1e6), "steep": (1e-3, 1e-3)}
    tau_pos, tau_neg = taus.get(kind, (per_anchor, per_anchor))
    positive: PositiveWeights = OwnOnly(dtype) if kind in ("base", "n") else Attraction(similarity, tau_pos)
    negative = AllAlike(dtype) if kind in ("base", "p") else Repulsion(similarity, tau_neg)
    return NodeWeights(positive, negative, n, device)


def errors(
    n: int,
    d: int,
    kind: str,
    implementation: str,
    precision: str = "float32",
    stored: torch.dtype = torch.float32,
    **options: Any,
) -> list[float]:
    """Of value and gradient against float64, absolute for the value and relative for the gradient."""
    u, v = embeddings(n, d)
    similarity = symmetric(n).to(stored)
    exact = value_and_gradient(u, v, weights_of(Stored(similarity.double()), kind), "reference", **options)
    here = Stored(similarity.to(DEVICE) if implementation == "fused" else similarity.float().to(DEVICE))
    moved: dict[str, Any] = {name: value.to(DEVICE) if isinstance(value, Tensor) else value for name, value in options.items()}
    found = value_and_gradient(
        u.float().to(DEVICE), v.float().to(DEVICE), weights_of(here, kind), implementation, precision=precision, **moved
    )
    value, *gradients = zip(found, exact, strict=True)
    errors = [float((value[0].cpu() - value[1]).abs())]
    return errors + [float((a.cpu() - b).norm() / b.norm().clamp(min=1e-9)) for a, b in gradients]


pytestmark: list[pytest.MarkDecorator] = [pytest.mark.gpu] if DEVICE == "cuda" else []


@pytest.mark.parametrize(("n", "d", "kind"), CASES)
def test_errors_are_at_most_twice_the_references(n: int, d: int, kind: str) -> None:
    """s/τ of 10³ has a rounding error of 10⁻⁴ in float32, and so has the weight."""
    slack = 2e-4 if kind == "steep" else 1e-6
    reference = errors(n, d, kind, "reference")
    for fast, slow in zip(errors(n, d, kind, "fused"), reference, strict=True):
        assert fast <= 2 * slow + slack


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("kind", ["base", "p", "plus", "one temperature"])
def test_poolings_and_sampled_anchors(kind: str, pooling: str) -> None:
    for anchors in (None, torch.arange(0, 70, 3), torch.tensor([7])):
        options: dict[str, Any] = {"pooling": pooling, "anchors": anchors}
        reference = errors(70, 20, kind, "reference", **options)
        for fast, slow in zip(errors(70, 20, kind, "fused", **options), reference, strict=True):
            assert fast <= 2 * slow + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("block", [7, 8192])
def test_stored_weights_have_the_same_mean_positives(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled, "BLOCK", 50)
    monkeypatch.setattr(pooled, "STORED_BLOCK", block)
    weights = weights_of(Stored(symmetric(131).to(DEVICE)), "plus")
    views = torch.stack(embeddings(131, 20)).to(DEVICE)
    for anchors in (None, torch.arange(0, 131, 3, device=DEVICE)):
        one, other = (pooled.mean_positives(views, Problem(each, 0.4, anchors=anchors)) for each in (weights, weights.stored()))
        for found, expected in zip(one, other, strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["base", "plus", "one temperature"])
def test_lower_precisions(kind: str) -> None:
    """bf16 is held to twice the error of the definition on embeddings in bfloat16; TF32 keeps three bits more than that."""
    u, v = embeddings(131, 100)
    exact = value_and_gradient(u, v, weights_of(Stored(symmetric(131)), kind), "reference")
    weights = weights_of(Stored(symmetric(131).float()), kind)
    rounded = value_and_gradient(u.bfloat16(), v.bfloat16(), weights, "reference")
    slow = [float((rounded[0] - exact[0]).abs())]
    slow += [float((a.double() - b).norm() / b.norm()) for a, b in zip(rounded[1:], exact[1:], strict=True)]
    for fast, reference in zip(errors(131, 100, kind, "fused", "bf16"), slow, strict=True):
        assert fast <= 2 * reference + 1e-4
    for fast, reference in zip(errors(131, 100, kind, "fused", "tf32"), slow, strict=True):
        assert fast <= reference + 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plus", "one temperature"])
def test_similarity_stored_in_half_the_memory(kind: str) -> None:
    """The weights of the rounded similarity are exact."""
    assert max(errors(130, 16, kind, "fused", stored=torch.bfloat16)) < 1e-5


def on_the_fly(n: int) -> Blend:
    x = torch.rand(n, 7, generator=draw(3))
    x[3] = 0
    structure = torch.where(symmetric(n, seed=1) > 0.5, symmetric(n, seed=2), 0).float()
    return Blend(Stored(SparseMatrix.from_dense(structure).to(DEVICE)), FeatureCosine(x.to(DEVICE)), 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("anchored", [False, True])
def test_similarity_on_the_fly_in_strips(anchored: bool, pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 200
    monkeypatch.setattr(pairs, "STRIP_BYTES", 0)
    monkeypatch.setattr(pairs, "STRIP_ROWS", 128)
    similarity = on_the_fly(n)
    u, v = (view.float().to(DEVICE) for view in embeddings(n, 12))
    anchors = torch.arange(0, n, 2, device=DEVICE) if anchored else None
    options: dict[str, Any] = {"pooling": pooling, "anchors": anchors}
    expected = value_and_gradient(u, v, weights_of(similarity, "plus"), "reference", **options)
    found = value_and_gradient(u, v, weights_of(similarity, "plus"), "fused", **options)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_strips_are_blocks() -> None:
    similarity = on_the_fly(40)
    negative = FeatureCosine(torch.randn(40, 5, generator=draw(0)).to(DEVICE))
    columns = torch.tensor([1, 5, 39], device=DEVICE)
    rows = torch.arange(10, 25, device=DEVICE)
    for measure in (similarity, negative, similarity.structure, Stored(symmetric(40).float().to(DEVICE))):
        for chosen in (None, columns):
            out = torch.full((15, 48), math.nan, device=DEVICE)[:, : 40 if chosen is None else 3]
            measure.strip(10, 25, out, chosen, 0.5)
            torch.testing.assert_close(out, 0.5 * measure.block(rows, chosen))


def poison(patched: pytest.MonkeyPatch) -> None:
    """Fill every new buffer with NaN."""

    def poisoned(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def filled(*arguments: Any, **options: Any) -> Tensor:
            fresh = allocate(*arguments, **options)
            return fresh.fill_(math.nan) if fresh.is_floating_point() else fresh

        return filled

    patched.setattr(torch, "empty", poisoned(torch.empty))
    patched.setattr(Tensor, "new_empty", poisoned(Tensor.new_empty))


@pytest.mark.slow
def test_every_output_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers filled with NaN before the kernels see them change nothing."""
    u, v = (view.float().to(DEVICE) for view in embeddings(70, 20))
    weights = weights_of(on_the_fly(70), "plus")
    expected = value_and_gradient(u, v, weights, "fused")

    poison(monkeypatch)
    for one, other in zip(value_and_gradient(u, v, weights, "fused"), expected, strict=True):
        assert torch.equal(one, other)


def split_in(parts: int, rows: int, columns: int, width: int, tile: tiles.Tiles, *_: int) -> tiles.Splits:
    """So many parts where there are as many tiles, instead of those that fill a device."""
    a_split = math.ceil(math.ceil(columns / parts) / tile.columns) * tile.columns
    return tiles.Splits(math.ceil(columns / a_split), a_split)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [(16, 16), (32, 64), (64, 16)])
def test_tiles_and_splits_change_nothing(tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = (view.float().to(DEVICE) for view in embeddings(67, 20))
    weights = weights_of(Stored(symmetric(67).float().to(DEVICE)), "plus")
    expected = value_and_gradient(u, v, weights, "fused")
    for kernel in ("sums_tiles", "gradient_tiles"):
        monkeypatch.setattr(tiles, kernel, lambda width, precision, chip: tiles.Tiles(*tile, 4, 2))
    for parts in (1, 3):
        monkeypatch.setattr(tiles, "splits_of", partial(split_in, parts))
        for one, other in zip(value_and_gradient(u, v, weights, "fused"), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_rows_without_any_positive() -> None:
    """Node 3 is similar to nothing, not even to itself: its counterpart is its only positive."""
    matrix = symmetric(20)
    matrix[3] = matrix[:, 3] = 0
    u, v = embeddings(20, 5)
    for kind in ("plus", "one temperature"):
        exact = value_and_gradient(u, v, weights_of(Stored(matrix), kind), "reference")
        here = weights_of(Stored(matrix.float().to(DEVICE)), kind)
        found = value_and_gradient(u.float().to(DEVICE), v.float().to(DEVICE), here, "fused")
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one.double().cpu(), other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("diagonal", ["own", "zero"])
@pytest.mark.parametrize("n", [33, 64, 70])
def test_all_nodes_alike_at_a_small_temperature(n: int, diagonal: str) -> None:
    """w⁻ of a real pair is at most N, however far all similarities are from zero; own pairs and padding must not overflow."""
    matrix = 1 - 0.05 * symmetric(n)
    if diagonal == "zero":
        matrix.fill_diagonal_(0)
    u, v = embeddings(n, 5)
    for tau in (0.005, torch.full((n,), 0.005, dtype=torch.float64)):
        results = []
        for dtype, device, implementation in ((torch.float64, "cpu", "reference"), (torch.float32, DEVICE, "fused")):
            similarity = Stored(matrix.to(device, dtype))
            temperature = tau.to(device, dtype) if isinstance(tau, Tensor) else tau
            weights = NodeWeights(Attraction(similarity, 0.5), Repulsion(similarity, temperature), n, device)
            results.append(value_and_gradient(u.to(device, dtype), v.to(device, dtype), weights, implementation))
        for exact, found in zip(*results, strict=True):
            torch.testing.assert_close(found.double().cpu(), exact, rtol=1e-3, atol=1e-5)


def test_what_is_no_function_of_a_symmetric_float32_similarity() -> None:
    fine = Stored(symmetric(20).float())
    assert NodeWeights(Attraction(fine, 0.1), Repulsion(fine, 0.1), 20).functions is not None
    assert NodeWeights(Attraction(fine, 0.1, counterpart=False), Repulsion(fine, 0.1), 20).functions is None
    assert NodeWeights(Attraction(fine, 0.1), Repulsion(Stored(symmetric(20).float()), 0.1), 20).functions is None
    for other in (Stored(symmetric(20)), Stored(torch.rand(20, 20, generator=draw(0)) * 1e-8)):
        assert NodeWeights(Attraction(other, 0.1), Repulsion(other, 0.1), 20).functions is None
    half = Stored(symmetric(20).half())
    assert half.block(torch.arange(3)).dtype == torch.float32


def test_strips_of_a_sparse_similarity_alone() -> None:
    matrix = torch.where(symmetric(30) > 0.3, symmetric(30), 0).float()
    sparse = Stored(SparseMatrix.from_dense(matrix).to(DEVICE))
    for first, last in ((0, 16), (16, 30), (0, 30), (5, 7)):
        out = torch.full((last - first, 32), math.nan, device=DEVICE)[:, :30]
        sparse.strip(first, last, out, factor=2.0)
        torch.testing.assert_close(out.cpu(), 2 * matrix[first:last])


def test_what_fused_needs_is_said() -> None:
    u = embeddings(20, 5)[0].float().to(DEVICE)
    lopsided = Stored(torch.rand(20, 20, generator=draw(0)).to(DEVICE))
    cases = [
        (u, weights_of(lopsided, "plus"), 0.4, None, "weights from one symmetric similarity"),
        (u, weights_of(Stored(symmetric(20).float().to(DEVICE)), "plus"), 0.01, None, "tau of at least 0.035, found 0.01"),
        (u.double(), weights_of(Stored(symmetric(20).to(DEVICE)), "plus"), 0.4, None, "found float64"),
        (u, weights_of(lopsided, "base"), 0.4, Candidates(torch.arange(20, device=DEVICE)), "all nodes as candidates"),
        (u.repeat(1, 200), weights_of(lopsided, "base"), 0.4, None, "at most 256 dimensions, found 1000"),
    ]
    for rows, weights, tau, candidates, message in cases:
        problem = Problem(weights, tau, candidates=candidates)
        with pytest.raises(SettingError, match=message):
            two_view_loss(rows, rows, problem, "fused")
        assert choose(problem.case(rows)) == "blocked"
    case = Problem(weights_of(lopsided, "base"), 0.4).case(u)
    assert choose(case) == "blocked", "too few nodes to compile for"
    assert choose(replace(case, nodes=needs.SMALLEST)) == ("fused" if DEVICE == "cuda" else "blocked")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"tau_pos": 0.1, "tau_neg": 0.1}])
def test_training_curves_agree(small: Graph, settings: dict[str, Any]) -> None:
    planned = plan(small, "grace+", epochs=6, hidden=8, precision="float32", device=DEVICE, **settings)
    curves = []
    for implementation in ("fused", "blocked", "reference"):
        execution = replace(planned.execution, implementation=implementation, recorded=False)
        curves.append(torch.tensor(replace(planned, execution=execution).fit(seed=0).losses))
    torch.testing.assert_close(curves[0], curves[1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(curves[0], curves[2], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("small_step", [8192, 1])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_repeats_are_the_single_runs(small: Graph, pooling: str, small_step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.execution.decision.SMALL_STEP", small_step)
    monkeypatch.setattr(needs, "SMALLEST", 1)
    settings: dict[str, Any] = {"epochs": 6, "hidden": 16, "pooling": pooling, "device": DEVICE}
    seeds = range(3, 6)
    repeats = fit_repeats(small, "grace+", seeds=seeds, **settings)
    for fitted, seed in zip(repeats, seeds, strict=True):
        alone = fit(small, "grace+", seed=seed, **settings)
        assert fitted.seed == seed
        torch.testing.assert_close(torch.tensor(fitted.losses), torch.tensor(alone.losses), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fitted.embed(small), alone.embed(small), rtol=1e-3, atol=1e-4)
