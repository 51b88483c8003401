from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphkin import Graph, method_named
from graphkin.report import weights as weights_module
from graphkin.report.fit_plots import weight_bars
from graphkin.report.weights import WeightDiagnosis, applies, diagnose, sentences
from tests.cases import weights_for
from tests.wording import told


@pytest.mark.parametrize("method", ["grace+", "grace+(p)", "grace+(n)", "graph-mlp+"])
def test_weights_by_class_are_those_of_a_plain_loop(small: Graph, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "BLOCK", 7)
    assert small.y is not None
    labels = small.y.clone()
    labels[[2, 25]] = -1
    graph = replace(small, y=labels)
    chosen = method_named(method)
    block = weights_for(graph, chosen, stored="nothing").block()
    attract, repel, own = (part.double().exp().tolist() for part in block)
    known = [node for node in range(40) if labels[node] >= 0]
    sums = {"same": 0.0, "other": 0.0, "repel same": 0.0, "repel other": 0.0, "own": 0.0, "all": 0.0}
    pairs = {"same": 0, "other": 0}
    counts = []
    for i in known:
        sums["own"] += own[i]
        everything = [own[i], *(attract[i][j] for j in range(40) if j != i)]
        sums["all"] += sum(everything)
        shares = [weight / sum(everything) for weight in everything if weight > 0]
        counts.append(math.exp(-sum(share * math.log(share) for share in shares)) if shares else 0.0)
        for j in known:
            if i != j:
                kind = "same" if labels[i] == labels[j] else "other"
                pairs[kind] += 1
                sums[kind] += attract[i][j]
                sums[f"repel {kind}"] += repel[i][j]
    found = diagnose(graph, chosen)
    assert (found.anchors, found.labelled, found.sampled) == (38, 38, False)
    assert found.chance == pytest.approx(pairs["same"] / (pairs["same"] + pairs["other"]))
    assert found.own_share == (None if method == "graph-mlp+" else pytest.approx(sums["own"] / sums["all"]))
    attracted = sums["same"] + sums["other"]
    assert found.positive_share == (None if method == "grace+(n)" else pytest.approx(sums["same"] / attracted))
    repels = method != "grace+(p)"
    assert found.negative_same == (pytest.approx(sums["repel same"] / pairs["same"], rel=1e-5) if repels else None)
    assert found.negative_other == (pytest.approx(sums["repel other"] / pairs["other"], rel=1e-5) if repels else None)
    assert found.effective_positives == pytest.approx(np.median(counts), rel=1e-4)


def test_weights_of_many_nodes_are_sampled(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "ALL_ANCHORS_UP_TO", 30)
    monkeypatch.setattr(weights_module, "ANCHORS", 12)
    found = diagnose(small, method_named("grace+"))
    assert (found.anchors, found.labelled, found.sampled) == (12, 40, True)


def test_weights_are_judged_only_where_there_are_some_and_classes_to_judge_by(small: Graph) -> None:
    assert small.y is not None
    assert applies(small, method_named("grace+"))
    assert not applies(small, method_named("grace"))
    assert not applies(replace(small, y=None), method_named("grace+"))
    assert not applies(replace(small, y=torch.zeros_like(small.y)), method_named("grace+"))


def test_sentences_about_weights() -> None:
    positives, negatives = sentences(WeightDiagnosis(10, 10, 0.2, 0.3, 0.6, 0.9, 1.1, 4.0))
    assert told(positives, "30.0%", "w⁺", "60.0%", "20.0%")
    assert told(negatives, "w⁻", "0.900", "1.100", "1", "10.0%", "off")
    positives, negatives = sentences(WeightDiagnosis(10, 10, 0.2, None, 0.6, 1.2, 0.9, 4.0))
    assert told(positives, "w⁺", "60.0%", "20.0%") and "other view" not in positives
    assert told(negatives, "1.200", "0.900", "20.0%", "added")
    positives, negatives = sentences(WeightDiagnosis(10, 10, 0.2, 1.0, None, None, None, 1.0))
    assert "other view" in positives and not re.search(r"\d", positives)
    assert told(negatives, "weight 1")


def test_bars_are_as_long_as_their_values() -> None:
    bars = weight_bars(WeightDiagnosis(10, 10, 0.2, 0.3, 0.6, 0.9, 1.1, 4.0))
    shares, means = bars.values()
    assert [(bar.text, round(bar.part, 3)) for bar in shares] == [("20.0%", 0.333), ("60.0%", 1.0)]
    assert [(bar.text, round(bar.part, 3)) for bar in means] == [("1.000", 0.909), ("0.900", 0.818), ("1.100", 1.0)]
    assert shares[0].colour == means[0].colour != shares[1].colour
    assert weight_bars(WeightDiagnosis(10, 10, 0.2, 1.0, None, None, None, 1.0)) == {}
