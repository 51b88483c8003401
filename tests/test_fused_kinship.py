"""Kinship's Triton kernels: on an NVIDIA GPU where there is one, and through Triton's interpreter otherwise."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphkin import MLP, Graph, Kinship, Method, Optimiser
from graphkin.errors import SettingError
from graphkin.execution import Execution
from graphkin.graphs.synthetic import community_graph
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import Case
from graphkin.objectives.kernels.fused import needs, tiles
from graphkin.objectives.kernels.kinship import Form, choose, kinship_loss, memory
from graphkin.training.plan import plan
from tests.test_fused import DEVICE, poison, split_in
from tests.test_kinship import random_weights, value_and_gradient, views_of

pytestmark: list[pytest.MarkDecorator] = [pytest.mark.gpu] if DEVICE == "cuda" else []

SHAPES = [(1, 3), (2, 3), (31, 100), (70, 16), (257, 100)]
KIN = Method("test-kin", MLP(hidden=16, dropout=0.2), None, Kinship(projector=8), Optimiser(epochs=4, learning_rate=0.01))


def shares_of(n: int, kind: str) -> Tensor:
    """Of all nodes, or of drawn positives: the counterparts alone."""
    return torch.eye(n, dtype=torch.float64) if kind == "drawn" else objective.kinship_shares(random_weights(n).block(), 0.1)


def errors(n: int, d: int, kind: str, form: Form) -> list[tuple[float, float]]:
    """Of the fused form and of the definition in float32, against float64: of the value, and of the gradients of length 1/τ."""
    (u, v), shares = views_of(n, d), shares_of(n, kind)
    definition = partial(objective.kinship, tau=form.tau, symmetric=form.symmetric)
    exact = value_and_gradient(partial(definition, shares=shares), u, v)
    u, v, here = (part.float().to(DEVICE) for part in (u, v, shares))
    fused = partial(kinship_loss, shares=None if kind == "drawn" else lambda rows: here[rows], form=form)
    scales = [max(1.0, float(exact[0])), *([1 / (form.tau * n**0.5)] * 2)]
    return [
        (float((fast.cpu() - truth).norm()) / scale, float((plain.cpu() - truth).norm()) / scale)
        for fast, plain, truth, scale in zip(
            value_and_gradient(fused, u, v),
            value_and_gradient(partial(definition, shares=here), u, v),
            exact,
            scales,
            strict=True,
        )
    ]


def assert_close_to_the_definition(n: int, d: int, kind: str, form: Form) -> None:
    """At most twice the definition's error, and what 11 bits of TF32 and 8 of bf16 add."""
    allowed = {"float32": 3e-6, "tf32": 1e-3, "bf16": 8e-3}[form.precision]
    for fast, plain in errors(n, d, kind, form):
        assert fast <= 2 * plain + allowed


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("kind", ["drawn", "all"])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_it_is_the_definition(n: int, d: int, kind: str, symmetric: bool) -> None:
    assert_close_to_the_definition(n, d, kind, Form(0.4, symmetric, implementation="fused"))


@settings(max_examples=15)
@given(
    st.integers(1, 150),
    st.integers(1, 140),
    st.sampled_from(["drawn", "all"]),
    st.booleans(),
    st.sampled_from([needs.SMALLEST_TAU, 0.4, 100.0]),
)
def test_any_shape_and_temperature(n: int, d: int, kind: str, symmetric: bool, tau: float) -> None:
    assert_close_to_the_definition(n, d, kind, Form(tau, symmetric, implementation="fused"))


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("kind", ["drawn", "all"])
def test_lower_precisions(kind: str, precision: str) -> None:
    assert_close_to_the_definition(131, 100, kind, Form(0.4, True, False, precision, "fused"))


def test_the_widest() -> None:
    assert_close_to_the_definition(70, needs.WIDEST, "all", Form(0.4, implementation="fused"))


@pytest.mark.parametrize("kind", ["drawn", "all"])
def test_every_output_is_written(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers filled with NaN before the kernels see them change nothing."""
    (u, v), p = views_of(70, 20, torch.float32), shares_of(70, kind).float().to(DEVICE)
    shares = None if kind == "drawn" else lambda rows: p[rows]
    for symmetric in (False, True):
        loss = partial(kinship_loss, shares=shares, form=Form(0.4, symmetric, implementation="fused"))
        expected = value_and_gradient(loss, u.to(DEVICE), v.to(DEVICE))
        with monkeypatch.context() as patched:
            poison(patched)
            found = value_and_gradient(loss, u.to(DEVICE), v.to(DEVICE))
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("tile", [(16, 16), (32, 64), (64, 16)])
def test_tiles_and_splits_change_nothing(tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = (view.to(DEVICE) for view in views_of(150, 20, torch.float32))
    loss = partial(kinship_loss, shares=None, form=Form(0.4, True, implementation="fused"))
    expected = value_and_gradient(loss, u, v)
    for kernel in ("sums_tiles", "kinship_gradient_tiles"):
        monkeypatch.setattr(tiles, kernel, lambda width, precision, chip: tiles.Tiles(*tile, 4, 2))
    for parts in (1, 3):
        monkeypatch.setattr(tiles, "splits_of", partial(split_in, parts))
        torch.testing.assert_close(value_and_gradient(loss, u, v), expected, rtol=1e-4, atol=1e-6)


def test_rows_of_zeros_and_equal_rows() -> None:
    """Identical embeddings have the closed form log N."""
    same = torch.ones(33, 4, device=DEVICE) / 2
    form = Form(0.4, implementation="fused")
    assert float(kinship_loss(same, same, None, form)) == pytest.approx(math.log(33), rel=1e-6)
    assert float(kinship_loss(same * 0, same, None, form)) == pytest.approx(math.log(33), rel=1e-6)


@pytest.mark.parametrize(
    ("given_form", "width", "dtype", "message"),
    [
        (Form(0.01, implementation="fused"), 5, torch.float32, "tau of at least 0.035, found 0.01"),
        (Form(0.4, both_views=True, implementation="fused"), 5, torch.float32, "candidates of the other view alone"),
        (Form(0.4, implementation="fused"), 5, torch.float64, "found float64"),
        (Form(0.4, implementation="fused"), 257, torch.float32, "at most 256 dimensions, found 257"),
    ],
)
def test_what_fused_needs_is_said(given_form: Form, width: int, dtype: torch.dtype, message: str) -> None:
    u, v = (view.to(DEVICE) for view in views_of(20, width, dtype))
    with pytest.raises(SettingError, match=message):
        kinship_loss(u, v, None, given_form)


@pytest.fixture
def with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    monkeypatch.setattr(needs, "why_no_fused_kernels", lambda device: None if device.type == "cuda" else "a GPU")
    return torch.device("cuda")


def test_where_it_is_chosen(with_a_gpu: torch.device) -> None:
    case = Case(with_a_gpu, nodes=19_717, width=256, both_views=False)
    assert choose(case, "auto", 19_717) == ("fused", "bf16")
    assert choose(case, "tf32", 19_717) == ("fused", "tf32")
    assert choose(case, "float32", 19_717) == ("blocked", "float32")
    others: list[dict[str, Any]] = [{"both_views": True}, {"width": 257}, {"tau": 0.01}, {"dtype": torch.float64}]
    for other in others:
        assert choose(replace(case, **other), "auto", 19_717) == ("blocked", "tf32")
    assert choose(replace(case, device=torch.device("cpu")), "float32", 19_717)[0] == "blocked"


def test_small_steps_never_wait_for_a_compiler(with_a_gpu: torch.device) -> None:
    for anchors in (900, 2048, needs.SMALLEST_KINSHIP - 1):
        case = Case(with_a_gpu, nodes=anchors, width=256, both_views=False)
        for precision in ("auto", "float32", "tf32", "bf16"):
            assert choose(case, precision, 2 * anchors)[0] == "blocked"
    assert choose(replace(case, nodes=needs.SMALLEST_KINSHIP), "auto", 2 * needs.SMALLEST_KINSHIP) == ("fused", "bf16")


def test_a_plan_says_which_form_is_used(with_a_gpu: torch.device) -> None:
    graph = community_graph(5000, mean_degree=4)

    def first_way(**given_settings: Any) -> Execution:
        method = KIN.configure(**given_settings)
        return next(iter(method.objective.ways(graph, method, with_a_gpu, adapt=False)))

    for asked in ({}, {"anchors": 4096}):
        fused, exact = first_way(**asked), first_way(precision="float32", **asked)
        assert (fused.kernel, fused.encoder_precision, fused.recorded) == ("fused bf16", "tf32", True)
        assert exact.kernel == "blocked float32" and 0 < fused.needs < exact.needs
    assert first_way(anchors=2048).kernel == "blocked tf32"
    assert first_way(both_views=True).kernel == "blocked tf32"


def test_its_memory_does_not_grow_with_the_pairs(with_a_gpu: torch.device) -> None:
    few: dict[str, Any] = {"both_views": False, "computes_weights": False, "drops": False}
    sizes = [memory(n, with_a_gpu, "fused", **few) for n in (10_000, 100_000)]
    assert max(sizes) < 1.05 * min(sizes) < memory(10_000, with_a_gpu, "blocked", **few)


@pytest.mark.parametrize("options", [{}, {"anchors": 12}, {"own": 0.2, "drop_positives": 0.4, "symmetric": True}])
def test_training_curves_agree(small: Graph, options: dict[str, Any]) -> None:
    planned = plan(small, KIN.configure(**options), precision="float32", device=DEVICE)
    fused, blocked = (
        replace(planned, execution=replace(planned.execution, implementation=name, recorded=False)).fit(seed=0).losses
        for name in ("fused", "blocked")
    )
    assert fused == pytest.approx(blocked, rel=1e-4)
