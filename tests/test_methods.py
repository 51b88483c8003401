from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphkin import GCA, GRACE, GRAPH_MLP, Graph, Method, Similarity, method_named, plus
from graphkin.errors import GraphError, SettingError
from graphkin.methods import METHODS, from_json, ideal, key_form, presets, to_json
from graphkin.objectives import reference as objective
from graphkin.objectives.contrast import Contrast
from graphkin.objectives.kernels import Problem, two_view_loss
from graphkin.weights import Attract, Neighbours, OwnCounterpart, Repel, Uniform
from tests.cases import weights_for


def test_plus_changes_positives_and_negatives_and_nothing_else() -> None:
    for base in (GRACE, GCA, GRAPH_MLP):
        enhanced = plus(base)
        assert enhanced.name == f"{base.name}+"
        changed: Any = enhanced.objective
        assert isinstance(changed.positives, Attract)
        assert isinstance(changed.negatives, Repel)
        before: Any = base.objective
        restored = replace(changed, positives=before.positives, negatives=before.negatives, similarity=before.similarity)
        assert replace(enhanced, name=base.name, objective=restored) == base


def test_parts() -> None:
    parts: list[tuple[Method, str, str, type]] = [
        (GRACE, "p", "negatives", Uniform),
        (GRACE, "n", "positives", OwnCounterpart),
        (GRAPH_MLP, "n", "positives", Neighbours),
    ]
    for method, part, name, kind in parts:
        assert isinstance(getattr(plus(method, part).objective, name), kind)
    for part, beta in (("g", 0.0), ("f", 1.0)):
        method = method_named(f"grace+({part})", preset="cora")
        assert method.settings()["beta"] == beta
        assert method.settings()["tau_pos"] == 0.1
    with pytest.raises(SettingError, match="unknown part 'q'"):
        plus(GRACE, "q")


@pytest.mark.parametrize("name", METHODS)
def test_every_preset_is_a_valid_method(name: str) -> None:
    base = name.removesuffix("+")
    tables = presets(base)
    assert "default" in tables
    for preset, table in tables.items():
        settings = method_named(name, preset).settings()
        expected = {key: value for key, value in table.items() if key != "plus"}
        if name.endswith("+"):
            expected |= table["plus"]
        assert expected.keys() <= settings.keys()
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


@pytest.mark.parametrize("name", [*METHODS, "grace+(p)", "graph-mlp+(n)"])
def test_json_round_trip(name: str) -> None:
    method = method_named(name)
    for form in (to_json, key_form):
        assert from_json(json.loads(json.dumps(form(method)))) == method


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
    for name in ("dgi+", "mvgrl+", "cca-ssg+", "sgrl+", "bgrl+", "kin+", "DGI+(p)"):
        base = name.lower().partition("+")[0]
        with pytest.raises(SettingError, match=rf"'\+' weighs positives and negatives.* of {base} .*has no such weights"):
            method_named(name)
    with pytest.raises(SettingError, match="unknown method 'nothing\\+'"):
        method_named("nothing+")
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
    with pytest.raises(SettingError, match="needs a similarity"):
        Contrast(positives=Attract())
    for name in ("grace(p)", "grace+(q)", "grace+(p", "+", "grace++"):
        with pytest.raises(SettingError, match="unknown method"):
            method_named(name)


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
    assert two_view_loss(u, v, Problem(weights, 0.5)).item() == pytest.approx(
        objective.ideal(u, v, labels, 0.5).item(), abs=1e-5
    )
    functions = two_view_loss(u, v, Problem(weights_for(small, method), 0.5), implementation="fused")
    assert functions.item() == pytest.approx(objective.ideal(u, v, small.y, 0.5).item(), abs=1e-5)


def test_the_ideal_objective_needs_labels_and_two_views(small: Graph) -> None:
    with pytest.raises(SettingError, match="is for methods with two views, found graph-mlp"):
        ideal(GRAPH_MLP)
    with pytest.raises(GraphError, match=r"ideal objective.*labels.*has none"):
        weights_for(replace(small, y=None), ideal(GRACE))


@pytest.mark.parametrize("nothing", [None, "none"])
def test_none_is_a_word_or_a_value(nothing: str | None) -> None:
    """A command line and TOML know the word alone."""
    method = plus(GRACE).configure(steps=nothing, feature_scale=nothing, top_k=nothing)
    similarity = method.similarity
    assert isinstance(similarity, Similarity) and similarity.steps is None and similarity.top_k is None
    assert method.feature_scale == "none"
