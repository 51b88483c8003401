"""Methods as values: components put together, their settings, their names."""

from graphkin.methods.alike import ByAlikeness
from graphkin.methods.method import Method, ideal, plus
from graphkin.methods.optimiser import Optimiser
from graphkin.methods.presets import METHODS, base_name, declare, method_named, presets, search_table
from graphkin.methods.saved import read_settings, write_settings
from graphkin.methods.serialise import from_json, key_form, to_json
from graphkin.methods.shipped import GCA, GRACE, GRAPH_MLP

__all__ = [
    "GCA",
    "GRACE",
    "GRAPH_MLP",
    "METHODS",
    "ByAlikeness",
    "Method",
    "Optimiser",
    "base_name",
    "declare",
    "from_json",
    "ideal",
    "key_form",
    "method_named",
    "plus",
    "presets",
    "read_settings",
    "search_table",
    "to_json",
    "write_settings",
]
