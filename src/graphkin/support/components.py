"""Components: frozen dataclasses of settings that a method is put together from, each known in files by an explicit tag."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from graphkin.errors import SettingError
from graphkin.support.registry import Registry

LATER = {"later": True}
"""metadata of a setting that is younger than stored runs: files mention it only where it is not the default"""
SLOT = {"slot": True}
"""metadata of a field that holds a component or None, and is no setting itself"""
COMPONENTS: Registry[type] = Registry("component")
C = TypeVar("C", bound=type)


def register(tag: str) -> Callable[[C], C]:
    """A class decorator: files written by graphkin call the class ``tag`` from now on, and reading them finds it."""

    def declare(cls: C) -> C:
        COMPONENTS.add(tag, cls)
        return cls

    return declare


def tag_of(cls: type) -> str:
    """The tag of a class; for one that is not registered its name, which reading then asks for."""
    for tag, known in COMPONENTS.items():
        if known is cls:
            return tag
    return cls.__name__ if cls.__name__ not in COMPONENTS else f"{cls.__module__}.{cls.__name__}"


def parts(component: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The components inside of one, with their fields; empty slots are None."""
    for entry in fields(component):
        value = getattr(component, entry.name)
        if entry.metadata.get("slot") or (is_dataclass(value) and not isinstance(value, type)):
            yield entry, value


def leaves(component: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The settings of a component, without those of the components inside of it."""
    inside = {entry.name for entry, _ in parts(component)}
    for entry in fields(component):
        if entry.name not in inside:
            yield entry, getattr(component, entry.name)


def all_leaves(component: Any) -> Iterator[tuple[type, str, Any]]:
    """Every setting with the component it belongs to, its own first."""
    for entry, value in leaves(component):
        yield type(component), entry.name, value
    for _, inside in parts(component):
        if inside is not None:
            yield from all_leaves(inside)


def check_distinct(component: Any, owner: str) -> None:
    """Settings have flat names, so that no two components of a method may share one."""
    homes: dict[str, type] = {}
    for cls, name, _ in all_leaves(component):
        other = homes.setdefault(name, cls)
        if other is not cls:
            raise SettingError(
                f"two components of {owner} share the setting {name!r} ({other.__name__} and {cls.__name__}): rename one."
            )


def takes_several(component: Any, name: str) -> bool:
    """Whether this setting is a tuple of any length, which a single value and "none" may stand for."""
    return isinstance(getattr(component, name), tuple) and Ellipsis in get_args(get_type_hints(type(component))[name])


def takes_none(component: Any, name: str) -> bool:
    """Whether None is a value of this setting."""
    hint = get_type_hints(type(component))[name]
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
