from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphkin import GCA, GRACE, GRAPH_MLP, Graph, Method, Similarity, method_named, plus
from graphkin.errors import GraphError, SettingError
from graphkin.methods.method import (
    Attract,
    Neighbours,
    OwnCounterpart,
    Repel,
    Supervision,
    Uniform,
    from_json,
    ideal,
    to_json,
)
from graphkin.methods.presets import NAMES, presets
from graphkin.models.encoders import GCN
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import two_view_loss
from graphkin.training.tasks import weights_for


def test_plus_changes_positives_and_negatives_and_nothing_else() -> None:
    for base in (GRACE, GCA, GRAPH_MLP):
        enhanced = plus(base)
        assert enhanced.name == f"{base.name}+"
        assert isinstance(enhanced.positives, Attract)
        assert isinstance(enhanced.negatives, Repel)
        restored = replace(
            enhanced, name=base.name, positives=base.positives, negatives=base.negatives, similarity=base.similarity
        )
        assert restored == base


def test_parts() -> None:
    assert isinstance(plus(GRACE, "p").negatives, Uniform)
    assert isinstance(plus(GRACE, "n").positives, OwnCounterpart)
    assert isinstance(plus(GRAPH_MLP, "n").positives, Neighbours)
    for part, beta in (("g", 0.0), ("f", 1.0)):
        method = method_named(f"grace+({part})", preset="cora")
        assert method.settings()["beta"] == beta
        assert method.settings()["tau_pos"] == 0.1
    with pytest.raises(SettingError, match="unknown part 'q'"):
        plus(GRACE, "q")


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_a_valid_method(name: str) -> None:
    base = name.removesuffix("+")
    tables = presets(base)
    assert "default" in tables
    for preset, table in tables.items():
        settings = method_named(name, preset).settings()
        expected = {key: value for key, value in table.items() if key != "plus"}
        if name.endswith("+"):
            expected |= table["plus"]
        for key, value in expected.items():
            assert settings[key] == (tuple(value) if isinstance(value, list) else value), (preset, key)


def test_presets_cover_the_papers_datasets() -> None:
    assert set(presets("grace")) == {"default", "cora", "citeseer", "pubmed", "dblp"}
    assert set(presets("gca")) == {"default", "computers", "photo", "wikics", "cs"}
    assert set(presets("graph-mlp")) == {"default", "cora", "citeseer", "pubmed"}


def test_a_few_of_the_authors_settings() -> None:
    pubmed = method_named("grace+", "pubmed")
    assert pubmed.settings()["anchors"] == 5000
    assert method_named("grace", "pubmed").settings()["anchors"] is None
    computers = method_named("gca+", "computers").settings()
    assert (computers["projector"], computers["tau_neg"], computers["adaptive"]) == (128, 0.001, "degree")
    citeseer = method_named("graph-mlp+", "citeseer").settings()
    assert (citeseer["tau"], citeseer["contrast_weight"], citeseer["tau_neg"]) == (2, 1, 1e-4)


@pytest.mark.parametrize("name", [*NAMES, "grace+(p)", "graph-mlp+(n)"])
def test_json_round_trip(name: str) -> None:
    method = method_named(name)
    assert from_json(json.loads(json.dumps(to_json(method)))) == method


def test_configure_takes_flat_names() -> None:
    method = method_named("grace+").configure(tau=0.5, hidden=64, drop_edges=[0.1, 0.2], beta=0.25, tau_pos=3)
    settings = method.settings()
    assert settings["tau"] == 0.5
    assert settings["hidden"] == 64
    assert settings["drop_edges"] == (0.1, 0.2)
    assert settings["beta"] == 0.25
    assert (settings["tau_pos"], settings["effective_positives"]) == (3, None)
    back = method.configure(effective_positives=5).settings()
    assert (back["tau_pos"], back["effective_positives"]) == (None, 5)


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"unknown method 'gracee'. Did you mean 'grace'\? Allowed: grace, grace\+"):
        method_named("gracee")
    with pytest.raises(SettingError, match="unknown setting for grace 'beta'"):
        GRACE.configure(beta=0.5)
    with pytest.raises(SettingError, match="unknown setting for grace 'similarity'"):
        GRACE.configure(similarity="x")
    with pytest.raises(SettingError, match="unknown setting for graph-mlp 'pooling'"):
        GRAPH_MLP.configure(pooling="mean")
    with pytest.raises(SettingError, match="unknown preset for gca 'cora'"):
        method_named("gca", "cora")
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"epochs": 0}, "epochs must be a whole number >= 1 and <= 10000000, found 0"),
        ({"learning_rate": 0}, "learning_rate must be a number > 0"),
        ({"tau": -1}, "tau must be a number > 0, found -1"),
        ({"alpha": 1.5}, "alpha must be a number > 0 and < 1"),
        ({"beta": 2}, "beta must be a number >= 0 and <= 1"),
        ({"beta": "high"}, "beta must be a number"),
        ({"tau_pos": 0}, "tau_pos must be a number > 0"),
        ({"anchors": 1}, "anchors must be a whole number >= 2"),
        ({"feature_scale": "cols"}, "unknown feature_scale 'cols'"),
    ]
    for bad, message in mistakes:
        with pytest.raises(SettingError, match=message):
            method_named("grace+").configure(**bad)
    with pytest.raises(SettingError, match="either two views or supervision"):
        replace(GRACE, supervision=Supervision())
    with pytest.raises(SettingError, match="needs a similarity"):
        Method("mine", GCN(), GRACE.views, Attract(), Uniform())


def test_the_ideal_method_is_the_ideal_objective(small: Graph) -> None:
    method = ideal(plus(GRACE).configure(tau=0.5, pooling="mean"))
    assert method.name == "grace-ideal"
    assert from_json(json.loads(json.dumps(to_json(method)))) == method
    assert small.y is not None
    labels = small.y.clone()
    labels[3] = -1
    weights = weights_for(replace(small, y=labels), method)
    draw = torch.Generator().manual_seed(0)
    u, v = (torch.nn.functional.normalize(torch.randn(40, 5, generator=draw), dim=1) for _ in range(2))
    labels[3] = 99  # alone in its class
    assert two_view_loss(u, v, weights, 0.5).item() == pytest.approx(objective.ideal(u, v, labels, 0.5).item(), abs=1e-5)
    functions = two_view_loss(u, v, weights_for(small, method), 0.5, implementation="fused")
    assert functions.item() == pytest.approx(objective.ideal(u, v, small.y, 0.5).item(), abs=1e-5)


def test_the_ideal_objective_needs_labels_and_two_views(small: Graph) -> None:
    with pytest.raises(SettingError, match="is for methods with two views, found graph-mlp"):
        ideal(GRAPH_MLP)
    with pytest.raises(GraphError, match="the ideal objective is made of labels, and the graph has none"):
        weights_for(replace(small, y=None), ideal(GRACE))


@pytest.mark.parametrize("nothing", [None, "none"])
def test_none_is_a_word_or_a_value(nothing: str | None) -> None:
    """A command line and TOML know the word alone."""
    method = plus(GRACE).configure(steps=nothing, feature_scale=nothing, top_k=nothing)
    assert isinstance(method.similarity, Similarity) and method.similarity.steps is None and method.similarity.top_k is None
    assert method.feature_scale == "none"
