"""Smoothed features by name: against dense algebra, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphkin import Graph, SparseMatrix
from graphkin.errors import SettingError
from graphkin.models import pieces
from graphkin.models.pieces import (
    Pieces,
    basis_of,
    check_piece,
    column_statistics,
    mean_length,
    pieces_of,
    width_of_piece,
)
from graphkin.models.views import whole_graph
from tests.cases import Case, cases

NAMES = ("x", "hop1", "hop2", "hop12", "ppr0.05", "ppr.2", "ppr0.999")


def lengths(rows: Any) -> Tensor:
    found: Tensor = (rows.to_dense() if isinstance(rows, SparseMatrix) else rows).norm(dim=1)
    return found


def unit(rows: Tensor) -> Tensor:
    """A loop over the rows; one of zeros stays."""
    return torch.stack([row / row.norm() if row.norm() > 0 else row for row in rows])


def expected(graph: Graph, x: Tensor, name: str) -> Tensor:
    """In float64, by powers and by the inverse."""
    adjacency, x = whole_graph(graph).adjacency.to_dense().double(), unit(x.double())
    if name.startswith("hop"):
        return unit(torch.linalg.matrix_power(adjacency, int(name[3:])) @ x)
    if name.startswith("ppr"):
        alpha = float(name[3:])
        return unit(alpha * torch.linalg.solve(torch.eye(len(x)) - (1 - alpha) * adjacency, x))
    return unit(x - adjacency @ x) if name == "high" else x


@given(cases)
def test_pieces_are_the_equations(case: Case) -> None:
    """Nodes without edges and rows of zeros are among the cases."""
    graph = case.graph()
    x = graph.x.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x
    found = pieces_of(graph, x, NAMES, None)
    sparse = pieces_of(graph, SparseMatrix.from_dense(x), NAMES, None)
    assert len(found) == case.n and found.device.type == "cpu" and set(found.parts) == set(NAMES)
    for name in NAMES:
        piece, truth = found[name], expected(graph, x, name)
        assert isinstance(piece, Tensor)
        near = 2e-3 if name.startswith("ppr") else 1e-5
        clear = torch.ones(case.n, dtype=torch.bool)
        if case.x.min() < 0:  # smoothed features may cancel out, and then any direction has length 1
            clear = _not_cancelled(graph, x, name)
        torch.testing.assert_close(piece[clear].double(), truth[clear], atol=near, rtol=0)
        torch.testing.assert_close(_dense(sparse[name])[clear], piece[clear], atol=near, rtol=0)


def _dense(piece: Any) -> Tensor:
    found: Tensor = piece.to_dense() if isinstance(piece, SparseMatrix) else piece
    return found


def _not_cancelled(graph: Graph, x: Tensor, name: str) -> Tensor:
    adjacency, x = whole_graph(graph).adjacency.to_dense().double(), unit(x.double())
    hops = int(name[3:]) if name.startswith("hop") else 2
    far: Tensor = (torch.linalg.matrix_power(adjacency, hops) @ x).norm(dim=1)
    return far > 0.05


def test_the_high_pass_is_what_a_node_has_and_its_neighbours_have_not(small: Graph) -> None:
    x = torch.rand(40, 16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        _dense(pieces_of(small, x, ["high"], None)["high"]).double(), expected(small, x, "high"), atol=1e-5, rtol=0
    )


def test_nodes_like_their_neighbours_have_no_high_pass() -> None:
    """What is left by rounding is not made a row of length 1."""
    x = torch.rand(1, 5, generator=torch.Generator().manual_seed(0)).repeat(9, 1)
    x[8, 0] += 1
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    found = lengths(pieces_of(Graph.from_arrays(x, ring), x, ["high"], None)["high"])
    torch.testing.assert_close(found, torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 1, 1]))


def test_columns_are_standardised(small: Graph) -> None:
    """Also what is left of them after many hops, and a column without differences is zero, not rounding made large."""
    x = torch.rand(40, 5, generator=torch.Generator().manual_seed(0))
    x[:, 2] = 0.7
    names, length = ["x", "hop1", "hop12", "ppr0.05"], mean_length(x)
    centre, scale = column_statistics(small, x, names, length)
    plain = pieces_of(small, x, names, length=length)
    found = pieces_of(small, x, names, length=length, centre=centre, scale=scale)
    for name in names:
        rows = _dense(plain[name]).double()
        expected = (rows - rows.mean(0)) / (rows.std(0, correction=0) * 5**0.5)
        if name == "x":
            expected[:, 2] = 0
        torch.testing.assert_close(_dense(found[name]).double(), expected, atol=1e-4, rtol=0)


def test_what_has_come_down_to_rounding_is_zero() -> None:
    """Of columns of mean 0 on a graph where every node has all others as neighbours."""
    pairs = torch.combinations(torch.arange(60)).T
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(0))
    graph, x = Graph.from_arrays(x, pairs), x - x.mean(0)
    length, names = mean_length(x), ["high", "hop8", "x"]
    centre, scale = column_statistics(graph, x, names, length)
    found = pieces_of(graph, x, names, length=length, centre=centre, scale=scale)
    assert (_dense(found["hop8"]) == 0).all()
    for name in ("x", "high"):
        assert _dense(found[name]).square().sum(dim=1).mean().item() == pytest.approx(1, abs=1e-4)


def test_standardised_columns_are_not_rounded_before(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """What many hops leave differs by less than bf16 can tell."""
    monkeypatch.setattr(pieces, "EXACT_UP_TO", 0)
    x = torch.rand(40, 5, generator=torch.Generator().manual_seed(0))
    length = mean_length(x)
    assert _dense(pieces_of(small, x, ["hop12"], length=length)["hop12"]).dtype == torch.bfloat16
    centre, scale = column_statistics(small, x, ["hop12"], length)
    assert pieces_of(small, x, ["hop12"], length=length, centre=centre, scale=scale)["hop12"].dtype == torch.float32


def test_columns_of_another_graph_are_moved_alike(small: Graph) -> None:
    x = torch.rand(40, 5, generator=torch.Generator().manual_seed(0))
    length = mean_length(x)
    centre, scale = column_statistics(small, x, ["x"], length)
    whole = pieces_of(small, x, ["x"], length=length, centre=centre, scale=scale)["x"]
    some = Graph.from_arrays(x[:7], torch.zeros(2, 0, dtype=torch.long))
    alone = pieces_of(some, x[:7], ["x"], length=length, centre=centre, scale=scale)["x"]
    torch.testing.assert_close(alone, _dense(whole)[:7])


def test_rows_have_length_one(small: Graph) -> None:
    x = torch.rand(40, 16, generator=torch.Generator().manual_seed(0))
    x[3] = 0
    alone = Graph.from_arrays(x, torch.empty(2, 0, dtype=torch.int64))
    for name, piece in pieces_of(alone, x, NAMES, None).parts.items():
        torch.testing.assert_close(_dense(piece), unit(x), atol=1e-4, rtol=0, msg=f"{name} of a graph without edges")
        assert float(lengths(piece)[3]) == 0
    for piece in pieces_of(small, x, NAMES, None).parts.values():
        torch.testing.assert_close(lengths(piece)[4:], torch.ones(36))


def test_rows_may_keep_their_lengths(small: Graph) -> None:
    x = torch.rand(40, 16, generator=torch.Generator().manual_seed(0)) * torch.arange(40)[:, None]
    length = mean_length(x)
    torch.testing.assert_close(length, x.norm(dim=1).mean().reshape(1))
    found = pieces_of(small, x, ["x", "hop1"], length=length)
    expected = x / length
    torch.testing.assert_close(_dense(found["x"]), expected)
    torch.testing.assert_close(_dense(found["hop1"]), whole_graph(small).adjacency @ expected, atol=1e-5, rtol=1e-5)
    assert mean_length(torch.zeros(3, 2)).tolist() == [1]


def test_only_what_is_named(small: Graph) -> None:
    assert set(pieces_of(small, small.x, ["x"], None).parts) == {"x"}
    found = pieces_of(small, small.x, ["hop2", "hop2"], None)
    assert set(found.parts) == {"hop2"} and len(found) == 40
    fewer = found.mapped(lambda part: _dense(part)[:7])
    assert isinstance(fewer, Pieces) and len(fewer) == 7 and torch.equal(_dense(fewer["hop2"]), _dense(found["hop2"])[:7])


@pytest.mark.parametrize("sparse", [False, True])
def test_many_features_are_turned_to_axes(small: Graph, sparse: bool) -> None:
    assert isinstance(small.x, Tensor)
    x = SparseMatrix.from_dense(small.x) if sparse else small.x
    basis = basis_of(small, x, 5)
    assert basis.shape == (16, 5) and torch.equal(basis, basis_of(small, x, 5))
    torch.testing.assert_close(basis.T @ basis, torch.eye(5), atol=1e-5, rtol=0)
    found = pieces_of(small, x, ["x", "hop2"], basis)
    assert found["x"].shape == (40, 16) and found["hop2"].shape == (40, 5)
    adjacency = whole_graph(small).adjacency.to_dense()
    smoothed = adjacency @ adjacency @ unit(small.x)
    torch.testing.assert_close(_dense(found["hop2"]), unit(smoothed @ basis), atol=1e-5, rtol=0)
    held = float((smoothed @ basis).square().sum())
    best = float(torch.linalg.svdvals(smoothed)[:5].square().sum())
    assert held == pytest.approx(best, rel=1e-4), "the axes of Â²x, however they are turned"
    spread = (smoothed @ basis).square().sum(dim=0)
    assert float(spread.max() / spread.sum()) < 0.9, "turned at random, no axis has all of it"


def test_all_axes_are_a_rotation(small: Graph) -> None:
    """Products of rows stay what they are."""
    basis = basis_of(small, small.x, 16)
    one, other = (_dense(pieces_of(small, small.x, ["hop1"], turn)["hop1"]) for turn in (None, basis))
    torch.testing.assert_close(one @ one.T, other @ other.T, atol=1e-5, rtol=0)


def test_widths() -> None:
    assert [width_of_piece(name, 20, 8) for name in ("x", "hop1", "ppr0.1")] == [20, 8, 8]
    assert [width_of_piece(name, 3, 8) for name in ("x", "hop1", "ppr0.1")] == [3, 3, 3]


@given(st.integers(1, 99), st.integers(1, 999))
def test_names(hops: int, thousandths: int) -> None:
    check_piece(f"hop{hops}")
    check_piece(f"ppr{thousandths / 1000}")
    check_piece(f"ppr{thousandths / 1000:.3f}".replace("0.", ".", 1))


REFUSED = [
    "",
    "X",
    "x ",
    "hop",
    "hop0",
    "hop100",
    "hop-1",
    "hop1.5",
    "ppr",
    "ppr0",
    "ppr0.0",
    "ppr1",
    "ppr1.5",
    "ppr-0.1",
    "foo",
]


@pytest.mark.parametrize(
    "name", [*REFUSED, "ppr1e-3", "ppr0.0009", "ppr0." + 30 * "0" + "1", "hop\u0661", "x\n", 5, None, ["x"]]
)
def test_refused_names(name: Any) -> None:
    with pytest.raises(SettingError, match="smoothed features must be x, high, hop1 to hop99, or ppr") as told:
        check_piece(name)
    assert "\n" not in str(told.value)
