"""Where a search looks: ranges and choices, shipped and given."""

from __future__ import annotations

from typing import Any

import pytest

from graphkin.errors import SettingError
from graphkin.methods import METHODS, base_name, method_named, presets, search_table
from graphkin.tuning.space import Choice, Range, space_for
from tests.searches import GRACE

SEARCHED = [name for name in METHODS if search_table(base_name(name))]


@pytest.mark.parametrize("name", SEARCHED)
def test_every_shipped_space_is_valid_and_no_preset(name: str) -> None:
    base = base_name(name)
    assert "search" not in presets(base)
    method = method_named(name)
    space = space_for(method, {})
    assert {one.partition("[")[0] for one in space.dimensions} == search_table(base).keys() & method.settings().keys()
    if METHODS[base].objective.weighted:
        assert ("beta" in space.dimensions) == name.endswith("+")


def test_a_method_without_a_space_is_searched_where_the_user_says() -> None:
    method = method_named("diffusion")
    with pytest.raises(SettingError, match="nothing to search: no settings of diffusion are left; name one"):
        space_for(method, {})
    parts = [["x", "hop2"], ["ppr0.1*0.5"]]
    space = space_for(method, {"free": parts, "width": (16, 64)})
    assert space.settings({"free": '["ppr0.1*0.5"]', "width": 32}) == {"free": ("ppr0.1*0.5",), "width": 32}
    assert "free" not in space.of(method) and space.dimensions["width"] == Range(16, 64, whole=True)


def test_numbers_of_a_pair_have_a_dimension_each() -> None:
    space = space_for(GRACE, {"hidden": [16, 32], "epochs": (10, 20)})
    assert space.dimensions["drop_edges[0]"] == space.dimensions["drop_edges[1]"] == Range(0.0, 0.7)
    assert space.dimensions["hidden"] == Choice(("16", "32"))
    assert space.dimensions["epochs"] == Range(10, 20, whole=True)
    assert space.settings({"drop_edges[0]": 0.1, "drop_edges[1]": 0.2, "hidden": "16"}) == {
        "drop_edges": (0.1, 0.2),
        "hidden": 16,
    }
    assert space.of(GRACE)["drop_edges[1]"] == 0.4
    assert "hidden" not in space.of(GRACE)  # 256 is none of the choices


def test_a_setting_that_would_undo_a_fixed_one_is_left_out() -> None:
    method = method_named("grace+")
    assert "effective_positives" in space_for(method, {}).dimensions
    assert "effective_positives" not in space_for(method.configure(tau_pos=0.2), {}, ["tau_pos"]).dimensions
    given = space_for(method, {"tau_pos": (0.1, 1.0)}).dimensions
    assert "tau_pos" in given and "effective_positives" not in given


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"tua": (0.1, 1.0)}, "unknown setting for grace 'tua'"),
        ({"tau": (1.0, 0.1)}, "low < high, found 1.0 and 0.1"),
        ({"tau": {"low": 0, "high": 1, "log": True}}, "above 0, found tau from 0"),
        ({"tau": {"low": 0.1}}, "search space of tau .* found low"),
        ({"tau": {"low": 0.1, "high": 1, "step": 2}}, "search space of tau"),
        ({"tau": {"low": "a", "high": 1}}, "low of tau must be a number, found 'a'"),
        ({"tau": (-1.0, 1.0)}, "tau must be a number > 0, found -1.0"),
        ({"tau": 3}, "search space of tau .* found 3"),
        ({3: (0.1, 1.0)}, "name of a setting must be a string, found 3"),
        (3, "search must be a table .* found 3"),
        ({"hidden": []}, "choices of hidden"),
        ({"hidden": [16, 16]}, "choices of hidden must differ"),
        ({"hidden": [object()]}, "choices of hidden"),
        ({"hidden": [16, -1]}, "hidden must be a whole number .* found -1"),
        ({"epochs": (1, 2)}, "epochs must be searched or fixed"),
    ],
)
def test_a_wrong_space_is_one_line(search: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        space_for(GRACE.configure(epochs=3), search, ["epochs"])
