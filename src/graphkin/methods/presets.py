"""Methods by name, with the settings that are shipped as data for each dataset."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import Any

from graphkin.errors import check_text, unknown
from graphkin.methods.method import GCA, GRACE, GRAPH_MLP, Method, plus

NAMES = ("grace", "grace+", "gca", "gca+", "graph-mlp", "graph-mlp+")


def method_named(name: str, preset: str | None = None) -> Method:
    """A method by name ("grace", "gca+", "graph-mlp+(p)", ...) with the settings the authors used on a dataset.

    Without ``preset`` the settings are defaults meant for any graph.
    """
    check_text("method", name)
    check_text("preset", preset, optional=True)
    found = re.fullmatch(r"(grace|gca|graph-mlp)(\+(?:\(([pngf])\))?)?", name.lower().strip())
    if found is None:
        raise unknown("method", name, NAMES)
    base, enhanced, part = found.groups()
    method = {"grace": GRACE, "gca": GCA, "graph-mlp": GRAPH_MLP}[base]
    if enhanced:
        method = plus(method, part)
    return method.configure(**_preset(method, base, bool(enhanced), part, preset))


def presets(base: str) -> dict[str, dict[str, Any]]:
    """The shipped settings of a base method, by dataset; "default" is for any other graph."""
    text = resources.files("graphkin.methods").joinpath("settings", f"{base}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _preset(method: Method, base: str, enhanced: bool, part: str | None, preset: str | None) -> dict[str, Any]:
    tables = presets(base)
    name = (preset or "default").removesuffix("-bundled")
    if name not in tables:
        if preset is not None:
            raise unknown(f"preset for {base}", preset, tables)
        name = "default"
    table = dict(tables[name])
    enhancement = table.pop("plus", {})
    chosen = {**table, **(enhancement if enhanced else {})}
    if part in ("g", "f"):
        chosen.pop("beta", None)
    known = method.settings()
    return {key: value for key, value in chosen.items() if key in known}
