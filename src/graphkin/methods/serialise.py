"""Methods as plain data, for files: components by their tags."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from graphkin.errors import SettingError
from graphkin.methods import earlier
from graphkin.methods.discovery import discover
from graphkin.methods.method import Method
from graphkin.support.components import COMPONENTS, tag_of


def to_json(component: Any) -> Any:
    """A method, or one of its components, as plain data; :func:`from_json` is the way back."""
    if not is_dataclass(component) or isinstance(component, type):
        return list(component) if isinstance(component, tuple) else component
    told = [f for f in fields(component) if not (f.metadata.get("later") and getattr(component, f.name) == f.default)]
    return {"type": tag_of(type(component))} | {f.name: to_json(getattr(component, f.name)) for f in told}


def from_json(data: Any) -> Method:
    """The method in plain data that this or an earlier version wrote."""
    if isinstance(data, dict) and earlier.is_earlier(data):
        data = earlier.in_slots(data)
    discover()
    method = _decoded(data)
    if not isinstance(method, Method):
        raise SettingError(f"the settings must describe a Method, found {type(method).__name__}.")
    return method


def key_form(method: Method) -> dict[str, Any]:
    """What tells the runs of a method from those of others, in the form in which the first version wrote it."""
    data: dict[str, Any] = to_json(method)
    return earlier.flat(data) if earlier.was_known(data) else data


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return tuple(value) if isinstance(value, list) else value
    given = dict(value)
    tag = given.pop("type")
    if tag not in COMPONENTS:
        raise SettingError(
            f"it was made with the component {tag!r}, which is not known here: import the module that defines the class, and "
            f"register it there with @graphkin.register({tag!r})."
        )
    gone = earlier.TAKEN_OUT.get(tag, ())
    return COMPONENTS[tag](**{key: _decoded(entry) for key, entry in given.items() if key not in gone})
