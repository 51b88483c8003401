"""``graphkin datasets``."""

from __future__ import annotations

from dataclasses import dataclass

from graphkin.commands.options.shared import DataRootOption, JsonOption


@dataclass(frozen=True, kw_only=True)
class Datasets:
    """List the graphs that have a name, and whether they are on this machine."""

    data_root: DataRootOption = None
    as_json: JsonOption = False
