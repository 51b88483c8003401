"""Methods by name, with the settings that are shipped as data for each dataset.

A method is declared in one place: as a value in Python, with :func:`declare`, or as the table [method] of its settings file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from graphkin.errors import check_text, unknown
from graphkin.methods.method import PARTS, Method, plus
from graphkin.methods.serialise import from_json
from graphkin.methods.shipped import GCA, GRACE, GRAPH_MLP
from graphkin.support.registry import Registry

DEFAULT = "default"
METHODS: Registry[Method] = Registry("method")
_presets: dict[str, Mapping[str, Any]] = {}
_searches: dict[str, Mapping[str, Any]] = {}


def declare(method: Method, presets: Mapping[str, Any] | None = None, search: Mapping[str, Any] | None = None) -> Method:
    """Make a method known by its name and, where its objective has positives and negatives, its "+".

    ``presets`` are settings by dataset; those under "default" are for any other graph, those under "plus" of a dataset for "+".
    ``search`` says where :func:`graphkin.tune` looks, by setting: ``{"tau": {"low": 0.1, "high": 1.0, "log": True}}``.
    """
    _presets[method.name] = {DEFAULT: {}, **(presets or {})}
    _searches[method.name] = search or {}
    METHODS.add(method.name, method)
    if method.objective.weighted:
        METHODS.add(f"{method.name}+", plus(method))
    return method


def method_named(name: str, preset: str | None = None) -> Method:
    """A method by name ("grace", "gca+", "graph-mlp+(p)", ...) with the settings the authors used on a dataset.

    Without ``preset`` the settings are defaults meant for any graph.
    """
    check_text("method", name)
    check_text("preset", preset, optional=True)
    whole, bracket, part = name.lower().strip().partition("(")
    if bracket and not (whole.endswith("+") and part.removesuffix(")") in PARTS and part.endswith(")")):
        raise unknown("method", name, METHODS)
    base = base_name(whole)
    if whole not in METHODS and whole == f"{base}+" and base in METHODS:
        plus(METHODS[base])  # says why there is none
    if whole not in METHODS:
        raise unknown("method", name, METHODS)
    method = plus(METHODS[base], part.removesuffix(")")) if bracket else METHODS[whole]
    chosen = _chosen(base, preset, enhanced=whole.endswith("+"))
    if bracket and part[0] in ("g", "f"):
        chosen.pop("beta", None)
    known = method.settings()
    return method.configure(**{key: value for key, value in chosen.items() if key in known})


def base_name(name: str) -> str:
    """Of the method whose "+" a name may be."""
    return name.partition("+")[0]


def presets(base: str) -> Mapping[str, Any]:
    """The settings of a base method, by dataset; "default" is for any other graph."""
    return _presets.get(base, {DEFAULT: {}})


def search_table(base: str) -> Mapping[str, Any]:
    """Where to look for better settings of a base method and its "+", as it was declared."""
    return _searches.get(base, {})


def _chosen(base: str, preset: str | None, *, enhanced: bool) -> dict[str, Any]:
    tables = presets(base)
    name = (preset or DEFAULT).removesuffix("-bundled")
    if name not in tables:
        raise unknown(f"preset for {base}", str(preset), tables)
    table = dict(tables[name])
    for_plus = table.pop("plus", {})
    return {**table, **(for_plus if enhanced else {})}


def _declare_shipped() -> None:
    folder = resources.files("graphkin.methods").joinpath("settings")
    in_python = {method.name: method for method in (GRACE, GCA, GRAPH_MLP)}
    files = {entry.name.removesuffix(".toml"): entry for entry in folder.iterdir() if entry.name.endswith(".toml")}
    for name in [*in_python, *sorted(files.keys() - in_python.keys())]:
        tables = tomllib.loads(files[name].read_text(encoding="utf-8"))
        described, search = tables.pop("method", None), tables.pop("search", None)
        method = in_python.get(name) or from_json({"type": "Method", "name": name, "views": None, **described})
        declare(method, tables, search)


_declare_shipped()
