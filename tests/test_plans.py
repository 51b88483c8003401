from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphkin import Graph, fit
from graphkin.errors import SettingError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods.method import Method
from graphkin.methods.presets import method_named
from graphkin.training import plans
from graphkin.training.plans import parse_memory, plan_for

CPU = torch.device("cpu")
MEASURED = """
import json, sys
import torch
from graphkin.bench.measure import peak_memory
from graphkin.training.plans import parse_memory, plan_for
from graphkin.methods.presets import method_named
from graphkin.graphs.synthetic import community_graph
from graphkin.training.fit import fit

nodes, name, memory = int(sys.argv[1]), sys.argv[2], sys.argv[3] or None
graph, method = community_graph(nodes), method_named(name).configure(epochs=2, **json.loads(sys.argv[4]))
plan = plan_for(graph, method, torch.device("cpu"), parse_memory(memory))
with peak_memory(torch.device("cpu")) as peak:
    fit(graph, method, device="cpu", memory=memory).embed(graph)
print(json.dumps({"estimate": plan.estimate, "peak": peak[0], "words": plan.words}))
"""


def of(name: str, **settings: Any) -> Method:
    return method_named(name).configure(**settings)


@pytest.mark.parametrize(
    ("nodes", "method", "settings", "memory", "words"),
    [
        (1500, "grace+", {}, "", "similarity and weights stored"),
        (5000, "grace", {}, "", "all nodes at once"),
        (6000, "grace+", {}, "", "similarity and weights stored"),
        (8000, "grace+", {}, "1.5GiB", "in blocks, similarity stored"),
        (8000, "grace+", {"candidates": 1000}, "3GiB", "1,000 candidates a step, similarity stored"),
        (60_000, "grace+", {}, "2GiB", "candidates a step, 32 largest PageRanks of a node"),
        (150_000, "grace+", {}, "2GiB", "10 neighbours of a node"),
    ],
)
def test_the_estimate_is_near_the_peak(nodes: int, method: str, settings: dict[str, int], memory: str, words: str) -> None:
    command = [sys.executable, "-c", MEASURED, str(nodes), method, memory, json.dumps(settings)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert words in found["words"]
    assert found["estimate"] == pytest.approx(found["peak"], rel=0.3)


def test_the_least_change_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph(4000, mean_degree=6)
    monkeypatch.setattr("psutil.Process.memory_info", lambda process: type("Memory", (), {"rss": 0}))

    def chosen(memory: str | None, method: Method | None = None) -> plans.Plan:
        return plan_for(graph, method or of("grace+"), CPU, parse_memory(memory))

    assert chosen(None).kept == "weights" and chosen(None).method == of("grace+")
    assert chosen("1GiB") == chosen("1GiB", chosen("1GiB").method), "what is planned stays as it is"
    assert chosen("400MiB").kept == "similarity" and chosen("400MiB").method == of("grace+")
    sampled = chosen("270MiB")
    assert sampled.kept == "similarity" and sampled.method == of("grace+", anchors=512, candidates=2048)
    assert chosen("210MiB").kept == "nothing"
    assert chosen("210MiB").method == sampled.method.configure(top_k=32, steps=None)
    monkeypatch.setattr(plans, "MOST_AT_ONCE", {"cpu": 3000})
    assert chosen("400MiB") == replace(sampled, memory=400 * 2**20)
    assert chosen("270MiB", of("grace+", anchors=1000)).method == sampled.method, "a sample of anchors is enough"
    assert "512 anchors and 2,048 candidates a step" in str(sampled) and "of 0.3 GiB" in str(sampled)
    plain = chosen("1GiB", of("grace"))
    assert plain.method.optimiser.candidates == 2048, "all pairs of many nodes take too long for GRACE, too"
    sets = of("grace+", anchors=50, positives_sampled=100, negatives_sampled=100)
    assert chosen("280MiB", sets).method == sets.configure(top_k=32, steps=None), "one's own samples stay"
    own = of("grace+", candidates=100, neighbours=3, top_k=5)
    assert chosen(None, own).method == own and "5 largest PageRanks of a node, 3 neighbours" in chosen(None, own).words
    assert chosen("1GiB", own.configure(neighbours=10**9)).estimate < 2**30, "a node has no more than there are"
    some = of("grace+", candidates=100)
    assert chosen("1GiB", some).kept == "similarity" and chosen("1GiB", some).method == some
    assert chosen("220MiB", some).method == some.configure(top_k=32, steps=None)
    with pytest.raises(
        SettingError, match=r"memory must be at least about 0\.\d\d GiB for grace\+ on synthetic-4000 .*found 0\.00 GiB"
    ):
        chosen("1MiB")


def test_a_plan_is_followed_as_it_was_said(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that other things take between plan and training must not change what was printed."""
    settings = {"epochs": 2, "hidden": 8, "candidates": 12, "top_k": 5}
    plan = plan_for(small, of("grace+", **settings), CPU, 8 * 2**30)
    monkeypatch.setattr("graphkin.training.fit.plan_for", None)
    assert fit(small, plan.method, memory=plan, device="cpu").method.optimiser.candidates == 12
    assert len(fit(small, plan.method, memory=plan, device="cpu", epochs=1).losses) == 1, "what is given beside it counts"


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
