"""Finds the encoders and objectives that lie in their rooms: a new file there is enough, and needs no entry in any list."""

from __future__ import annotations

import functools
import importlib
import pkgutil

ROOMS = ("graphkin.models.encoders", "graphkin.objectives")


@functools.cache
def discover() -> None:
    """Import every module in which an encoder or an objective may be registered."""
    for room in ROOMS:
        for found in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}."):
            importlib.import_module(found.name)
