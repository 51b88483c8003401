from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from graphkin import Graph, fit
from graphkin.errors import SettingError
from graphkin.execution import Execution, decide, parse_memory
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import Method, method_named
from graphkin.objectives.contrast import ways
from graphkin.objectives.contrast.ways import adapted
from graphkin.support.memory import peak_memory
from graphkin.training.plan import plan
from tests.killed_at import ended, started

CPU = torch.device("cpu")
TAUS = {"tau_pos": 0.1, "tau_neg": 0.1}


def of(name: str, **settings: Any) -> Method:
    return method_named(name).configure(**settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "method", "settings", "memory", "words"),
    [
        (1500, "grace+", {}, None, "similarity and weights stored"),
        (5000, "grace", {}, None, "all nodes at once"),
        (4000, "grace+", TAUS, None, "similarity and weights stored"),
        (5000, "grace+", TAUS, "1GiB", "in blocks, similarity stored"),
        (5000, "grace+", {**TAUS, "candidates": 1000}, "3GiB", "1,000 candidates a step, similarity stored"),
        (20_000, "grace+", {}, "1GiB", "candidates a step, 32 largest PageRanks of a node"),
        (5000, "kin", {}, None, "2,048 anchors a step"),
    ],
)
def test_the_estimate_is_near_the_peak(
    nodes: int, method: str, settings: dict[str, Any], memory: str | None, words: str, tmp_path: Path
) -> None:
    assert ended(started(measure, nodes, of(method, epochs=1, **settings), memory, tmp_path / "found")) == 0
    found = json.loads((tmp_path / "found").read_text())
    assert words in found["words"]
    assert found["estimate"] == pytest.approx(found["peak"], rel=0.3)


def measure(nodes: int, method: Method, memory: str | None, path: Path) -> None:
    """The estimate and the peak of a process that does nothing else."""
    warnings.simplefilter("ignore")
    graph = community_graph(nodes)
    plan = decide(graph, method, CPU, parse_memory(memory))
    with peak_memory(CPU) as peak:
        fit(graph, method, device="cpu", memory=memory).embed(graph)
    path.write_text(json.dumps({"estimate": plan.estimate, "peak": peak[0], "words": plan.words}))


def test_the_least_change_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph(4000, mean_degree=6)
    monkeypatch.setattr("psutil.Process.memory_info", lambda process: type("Memory", (), {"rss": 0}))

    def chosen(memory: str | None, method: Method | None = None) -> Execution:
        return decide(graph, method or of("grace+"), CPU, parse_memory(memory))

    assert chosen(None).stored == "weights" and chosen(None).method == of("grace+")
    assert chosen("1GiB") == chosen("1GiB", chosen("1GiB").method), "what is decided stays as it is"
    assert chosen("400MiB").stored == "similarity" and chosen("400MiB").method == of("grace+")
    sampled = chosen("270MiB")
    assert sampled.stored == "similarity" and sampled.method == of("grace+", anchors=512, candidates=2048)
    assert chosen("210MiB").stored == "nothing"
    assert chosen("210MiB").method == sampled.method.configure(top_k=32, steps=None)
    monkeypatch.setattr(ways, "MOST_AT_ONCE", {"cpu": 3000})
    assert chosen("400MiB") == replace(sampled, memory=400 * 2**20)
    assert chosen("270MiB", of("grace+", anchors=1000)).method == sampled.method, "a sample of anchors is enough"
    assert "512 anchors and 2,048 candidates a step" in str(sampled) and "of 0.3 GiB" in str(sampled)
    plain = chosen("1GiB", of("grace"))
    assert plain.method.sampling.candidates == 2048, "all pairs of many nodes take too long for GRACE, too"
    sets = of("grace+", anchors=50, positives_sampled=100, negatives_sampled=100)
    assert chosen("280MiB", sets).method == sets.configure(top_k=32, steps=None), "one's own samples stay"
    own = of("grace+", candidates=100, top_k=5)
    assert chosen(None, own).method == own and "5 largest PageRanks of a node" in chosen(None, own).words
    some = of("grace+", candidates=100)
    assert chosen("1GiB", some).stored == "similarity" and chosen("1GiB", some).method == some
    assert chosen("220MiB", some).method == some.configure(top_k=32, steps=None)
    with pytest.raises(
        SettingError, match=r"memory must be at least about 0\.\d\d GiB for grace\+ on synthetic-4000 .*found 0\.00 GiB"
    ):
        chosen("1MiB")


@pytest.mark.parametrize("name", ["grace", "gca+", "grace+"])
def test_a_cpu_samples_where_all_pairs_take_long(name: str) -> None:
    graph, method = community_graph(6001, mean_degree=4), of(name, feature_scale="rows")
    sampled = plan(graph, method, device="cpu").execution
    assert sampled.method == method.configure(anchors=512, candidates=2048)
    assert sampled.stored == ("similarity" if "+" in name else "nothing")
    assert str(sampled.change).startswith("comparing all pairs of nodes takes too long or more than")
    for unchanged in (
        plan(graph, method, device="cpu", candidates=6001).execution,
        plan(graph, method, device="cpu", adapt=False).execution,
        plan(community_graph(6000, mean_degree=4), method, device="cpu").execution,
    ):
        assert unchanged.change is None and unchanged.stored == "weights"
    assert "all nodes at once" in next(adapted(graph, method, torch.device("cuda"), None)).words


def test_all_nodes_that_are_asked_for_are_never_sampled() -> None:
    with pytest.raises(SettingError, match=r"for grace\+ on synthetic-6001 \(all nodes at once, in blocks, 32 largest"):
        plan(community_graph(6001, mean_degree=4), "grace+", device="cpu", memory="1MiB", candidates=10**6)


def test_the_error_names_kin_where_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph(4000, mean_degree=6)
    monkeypatch.setattr("psutil.Process.memory_info", lambda process: type("Memory", (), {"rss": 0}))
    with pytest.raises(SettingError, match=r"for grace\+ on .*, found 0\.88 GiB\. method='kin' needs about 0\.\d\d GiB\.$"):
        plan(graph, "grace+", device="cpu", memory="900MiB", hidden=8192)
    for method in ("grace+", "kin"):
        with pytest.raises(SettingError, match=r"found 0\.00 GiB\.$"):
            plan(graph, method, device="cpu", memory="1MiB")


def test_a_plan_is_followed_as_it_was_said(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that other things take between plan and training must not change what was printed."""
    planned = plan(small, of("grace+", epochs=2, hidden=8, candidates=12, top_k=5), device="cpu", memory="8GiB")
    monkeypatch.setattr("graphkin.training.plan.decide", None)
    fitted = planned.fit(seed=0)
    assert fitted.method.sampling is not None and fitted.method.sampling.candidates == 12
    assert fitted.execution["words"] == planned.execution.words


def test_a_memory_that_suffices_changes_nothing(small: Graph) -> None:
    settings: dict[str, Any] = {"epochs": 3, "hidden": 8, "device": "cpu"}
    assert torch.equal(
        fit(small, "grace+", memory="8GiB", **settings).embed(small), fit(small, "grace+", **settings).embed(small)
    )


@pytest.mark.parametrize(
    ("text", "bytes_"), [("8GiB", 8 * 2**30), ("500MB", 500 * 10**6), ("1.5 gib", 3 * 2**29), (4096, 4096), (None, None)]
)
def test_sizes(text: str | int | None, bytes_: int | None) -> None:
    assert parse_memory(text) == bytes_


@pytest.mark.parametrize("text", ["", "much", "-3GiB", "0", "0.5", "8 parsecs", "nan", "1e400", "9" * 400 + "GiB"])
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(SettingError, match=r"memory must be a size such as 8GiB or 500MB .*, found"):
        parse_memory(text)
