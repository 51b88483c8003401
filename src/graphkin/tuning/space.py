"""Where to look for settings: ranges and choices, read from a method's table [search] and from what the user gives."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphkin.errors import SettingError, check_flag, check_range, check_text, shown, unknown
from graphkin.methods import Method, base_name, search_table

FORM = "{low, high} with log = true or false, or {choices}"


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; on a logarithmic scale with ``log``, only whole ones with ``whole``."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def holds(self, value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high and (not self.whole or float(value).is_integer())

    def stored(self, value: Any) -> Any:
        return int(value) if self.whole else float(value)

    def value(self, stored: Any) -> Any:
        return stored

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}" + (" (log)" if self.log else "")


@dataclass(frozen=True)
class Choice:
    """One of several values, stored as JSON."""

    texts: tuple[str, ...]

    def holds(self, value: Any) -> bool:
        return self.stored(value) in self.texts

    def stored(self, value: Any) -> Any:
        return json.dumps(value)

    def value(self, stored: Any) -> Any:
        value = json.loads(stored)
        return tuple(value) if isinstance(value, list) else value

    def __str__(self) -> str:
        return ", ".join(text.strip('"') for text in self.texts)


Dimension: TypeAlias = Range | Choice


@dataclass(frozen=True)
class Space:
    """What is searched. The numbers of a setting with several have a dimension each: ``drop_edges[0]``, ``drop_edges[1]``."""

    dimensions: Mapping[str, Dimension]

    def settings(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """What :meth:`Method.configure` takes, of the values of all dimensions."""
        values = {name: self.dimensions[name].value(value) for name, value in stored.items()}
        settings: dict[str, Any] = {}
        for name, value in values.items():
            base, bracket, _ = name.partition("[")
            settings[base] = (*settings.get(base, ()), value) if bracket else value
        return settings

    def values(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The other way round: the value of every dimension, in the space or not."""
        found = {}
        for name in self.dimensions:
            base, bracket, place = name.partition("[")
            found[name] = settings[base][int(place.rstrip("]"))] if bracket else settings[base]
        return found

    def of(self, method: Method) -> dict[str, Any]:
        """The method's own settings as they are stored, as far as they lie in the space."""
        values = self.values(method.settings())
        return {name: one.stored(values[name]) for name, one in self.dimensions.items() if one.holds(values[name])}

    def as_dict(self) -> dict[str, str]:
        return {name: str(dimension) for name, dimension in self.dimensions.items()}


def space_for(method: Method, given: Mapping[str, Any], fixed: Collection[str] = ()) -> Space:
    """The space that ships with a method, with what the user gives instead or besides.

    Settings that are ``fixed``, that the method does not have, or that would undo one of these or of the user's
    (``effective_positives`` undoes ``tau_pos``) are left out.
    """
    known = method.settings()
    if not isinstance(given, Mapping):
        raise SettingError(f"search must be a table with a range or choices for each setting, found {shown(given)}.")
    for name in given:
        check_text("the name of a setting", name)
        if name not in known:
            raise unknown(f"setting for {method.name}", name, known)
        if name in fixed:
            raise SettingError(f"{name} must be searched or fixed, found both.")
    own = {name: _checked(method, name, table) for name, table in given.items()}
    settled = _at_first_values(method, own)
    dimensions: dict[str, Dimension] = {}
    for name, table in search_table(base_name(method.name)).items():
        if name not in known or name in fixed or name in given or (name == "beta" and method.name[-3:] in ("(g)", "(f)")):
            continue
        found = _checked(method, name, table)
        after = _at_first_values(settled, {name: found}).settings()
        if all(after[other] == settled.settings()[other] for other in (*fixed, *given)):
            dimensions |= found
    for found in own.values():
        dimensions |= found
    if not dimensions:
        raise SettingError(f"there is nothing to search: no settings of {method.name} are left; name one with a range.")
    return Space(dimensions)


def _at_first_values(method: Method, searched: Mapping[str, Mapping[str, Dimension]]) -> Method:
    """The method with each setting at the low end of its range, or its first choice."""
    flat = {name: one for dimensions in searched.values() for name, one in dimensions.items()}
    return method.configure(**Space(flat).settings({name: _ends(one)[0] for name, one in flat.items()}))


def _ends(dimension: Dimension) -> list[Any]:
    return [dimension.low, dimension.high] if isinstance(dimension, Range) else list(dimension.texts)


def _checked(method: Method, name: str, table: Any) -> dict[str, Dimension]:
    """The dimensions of one setting; the method accepts the ends of a range, and every choice."""
    dimension = _parsed(name, table, method.settings()[name])
    value = method.settings()[name]
    found: dict[str, Dimension] = {name: dimension}
    if isinstance(dimension, Range) and isinstance(value, tuple):
        found = {f"{name}[{place}]": dimension for place in range(len(value))}
    for end in _ends(dimension):
        method.configure(**Space(found).settings(dict.fromkeys(found, end)))
    return found


def _parsed(name: str, table: Any, default: Any) -> Dimension:
    """From a table, or from Python's short forms: ``(low, high)`` and ``[choice, choice]``."""
    if isinstance(table, list):
        table = {"choices": table}
    elif isinstance(table, tuple) and len(table) == 2:
        table = {"low": table[0], "high": table[1]}
    keys = set(table) if isinstance(table, Mapping) else set()
    if keys == {"choices"}:
        return _choice(name, table["choices"])
    if not {"low", "high"} <= keys <= {"low", "high", "log"}:
        found = ", ".join(map(str, table)) or "nothing" if isinstance(table, Mapping) else shown(table)
        raise SettingError(f"the search space of {name} must be {FORM}, found {found}.")
    return _range(name, table["low"], table["high"], table.get("log", False), default)


def _range(name: str, low: Any, high: Any, log: Any, default: Any) -> Range:
    check_range(f"low of {name}", low)
    check_range(f"high of {name}", high)
    check_flag(f"log of {name}", log)
    if not low < high:
        raise SettingError(f"the search space of {name} must have low < high, found {low} and {high}.")
    if log and low <= 0:
        raise SettingError(f"a logarithmic range must be above 0, found {name} from {low}.")
    first = default[0] if isinstance(default, tuple) and default else default
    counts = first is None or (isinstance(first, int) and not isinstance(first, bool))
    whole = counts and isinstance(low, int) and isinstance(high, int)
    return Range(low, high, log, whole) if whole else Range(float(low), float(high), log)


def _choice(name: str, choices: Any) -> Choice:
    if not isinstance(choices, list | tuple) or not choices:
        raise SettingError(f"the choices of {name} must be a list of values, found {shown(choices)}.")
    try:
        texts = tuple(json.dumps(choice, allow_nan=False) for choice in choices)
    except (TypeError, ValueError) as error:
        raise SettingError(f"the choices of {name} must be numbers, words or lists of them, found others.") from error
    if len(set(texts)) < len(texts):
        raise SettingError(f"the choices of {name} must differ, found one twice.")
    return Choice(texts)
