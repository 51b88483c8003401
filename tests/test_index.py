"""Nearest nodes by an index: what it finds, when it is taken, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphkin
from graphkin import Graph
from graphkin.errors import SettingError
from graphkin.uses import index as index_module
from tests.cases import Case, cases
from tests.test_cli import Capture, folder
from tests.test_cli import graphkin as command
from tests.test_uses import rounded
from tests.test_uses_commands import answer, run
from tests.wording import refused, told

__all__ = ["folder", "run"]  # fixtures


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search would be long."""
    monkeypatch.setattr(index_module, "MOST_COMPARED", 0)


def groups(nodes: int, size: int = 20) -> tuple[np.ndarray, Graph]:
    """Embeddings in groups, and edges between some nodes of a group."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(nodes // size, 8))[np.arange(nodes) % (nodes // size)] + 0.1 * draw.normal(size=(nodes, 8))
    start = draw.integers(0, nodes - nodes // size, nodes)
    return rows, Graph.from_arrays(np.ones((nodes, 1)), np.stack([start, start + nodes // size]))


@given(cases, st.integers(1, 14), st.booleans())
def test_a_few_nodes_are_found_as_by_comparing_all(case: Case, count: int, ties: bool) -> None:
    """Also copies, rows of zeros, and more neighbours than the index has."""
    rows = rounded(case) if ties else case.u.numpy()
    if case.n < 2:
        return
    exactly = graphkin.similar(rows, list(range(case.n)), count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "MOST_COMPARED", 0)
        found = graphkin.similar(rows, list(range(case.n)), count)
    assert exactly.approximate is None and found.approximate is not None
    assert found.cosines == pytest.approx(exactly.cosines, abs=1e-5)
    assert found.approximate.recall == 1 and found.approximate.checked == case.n
    for node, near in enumerate(found.indices):
        assert node not in near and len(set(near)) == len(near)


def test_links_by_an_index_are_nearly_those_of_all_pairs(always: None) -> None:
    rows, graph = groups(3000)
    steps: list[float] = []
    found = graphkin.links(rows, graph, 500, device="cpu", progress=steps.append)
    exactly = graphkin.links(rows, graph, 500, device="cpu", exact=True)
    assert exactly.approximate is None and found.approximate is not None
    assert found.approximate.nearest == 32 and found.approximate.checked == 200 and found.approximate.recall > 0.9
    known = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    pairs, all_pairs = ([tuple(pair) for pair in one.pairs.tolist()] for one in (found, exactly))
    assert len(set(pairs)) == 500 and not set(pairs) & known and all(a < b for a, b in pairs)
    assert len(set(pairs) & set(all_pairs)) > 450
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert found.cosines == pytest.approx([unit[a] @ unit[b] for a, b in pairs], abs=1e-5), "cosines are exact"
    assert (np.diff(found.cosines) <= 0).all()
    assert steps == sorted(steps) and steps[-1] == 1


def test_a_bad_index_says_so(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = groups(400)

    def wrong(index: object, unit: np.ndarray, nodes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        near = (nodes[:, None] + np.arange(1, count + 1)) % len(unit)
        return near, np.einsum("nd,nkd->nk", unit[nodes], unit[near])

    monkeypatch.setattr(index_module, "_looked_up", wrong)
    found = graphkin.similar(rows, np.arange(400), 5)
    assert found.approximate is not None and found.approximate.recall < 0.1
    assert told(
        str(found.approximate), "approximate", "nearest 5 of each node", f"{100 * found.approximate.recall:.1f} %", "200"
    )


def test_when_an_index_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of cosines: given nodes times all nodes, and all pairs."""
    rows, graph = groups(100)
    for most, few, many, all_pairs in ((299, False, True, True), (300, False, False, True), (4950, False, False, False)):
        monkeypatch.setattr(index_module, "MOST_COMPARED", most)
        assert (graphkin.similar(rows, [0, 1]).approximate is not None) == few
        assert (graphkin.similar(rows, [0, 1, 2]).approximate is not None) == many
        assert (graphkin.links(rows, graph, device="cpu").approximate is not None) == all_pairs
        assert graphkin.similar(rows, np.arange(100), exact=True).approximate is None
    with refused(SettingError, "exact", "1"):
        graphkin.similar(rows, [0], exact=1)  # type: ignore[arg-type]


def test_without_usearch_all_pairs_are_compared(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, graph = groups(100)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said: list[str] = []
    found = graphkin.links(rows, graph, 50, device="cpu", say=said.append)
    near = graphkin.similar(rows, [3], say=said.append)
    assert found.approximate is None and near.approximate is None
    assert all("minutes" in line and "pip install 'graphkin[index]'" in line for line in said)
    assert told(said[0], "4,950") and told(said[1], "100")
    assert np.array_equal(found.pairs, graphkin.links(rows, graph, 50, device="cpu", exact=True, say=said.append).pairs)
    assert len(said) == 2, "who asks for all pairs knows that it takes long"


def test_the_commands_say_what_was_used(run: Path, capsys: Capture, always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["links", run, "--count", 5], ["similar", run, 3, "--count", 5]):
        found = answer(capsys, *arguments)
        assert found["approximate"]["recall"] > 0.99 and found["approximate"]["nearest"] in (5, 32)
        assert command(*arguments) == 0
        assert told(capsys.readouterr().out, "approximate: nearest", "of each node by an index", " % of them", "--exact")
        assert answer(capsys, *arguments, "--exact")["approximate"] is None
        with monkeypatch.context() as patch:
            patch.setattr("importlib.util.find_spec", lambda name: None)
            assert command(*arguments) == 0
        captured = capsys.readouterr()
        assert told(captured.err, f"{arguments[0]}: ", "minutes", "graphkin[index]") and "approximate" not in captured.out
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        assert command("links", run, "--quiet") == 0
    assert capsys.readouterr().err == ""
