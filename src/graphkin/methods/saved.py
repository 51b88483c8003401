"""A method's name and settings in a TOML file of the user's, such as ``graphkin tune`` writes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from graphkin.errors import SettingError
from graphkin.methods.earlier import TAKEN_OUT
from graphkin.methods.method import Method
from graphkin.methods.presets import method_named
from graphkin.support.files import checked_path, reading, write_whole
from graphkin.support.shapes import check_shape

SHAPE = {"method": str, "settings": dict}


def is_settings_file(preset: str | Path) -> bool:
    """Whether a preset is a file, and not the name of a dataset."""
    return isinstance(preset, Path) or preset.endswith(".toml") or "/" in preset or "\\" in preset


def read_settings(path: str | Path) -> Method:
    """The method of a file with ``method = "NAME"`` and a table ``[settings]``; what it does not mention has its default."""
    path = checked_path(path)
    with reading(path, 'is not a settings file, which has method = "NAME" and a table [settings]', SettingError):
        if not path.is_file():
            raise SettingError(f"no settings file at {path}.")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        check_shape(tables, SHAPE)
        if set(tables) != set(SHAPE):
            raise ValueError(f"found {', '.join(sorted(set(tables) - set(SHAPE)))} besides")
        method = method_named(tables["method"])
        return method.configure(**_still_known(tables["settings"], method))


def _still_known(settings: dict[str, Any], method: Method) -> dict[str, Any]:
    """Without settings that were taken out since the file was written, where it did not use them."""
    gone = {name for names in TAKEN_OUT.values() for name in names} - method.settings().keys()
    return {name: value for name, value in settings.items() if name not in gone or value != "none"}


def write_settings(path: Path, method: Method, comments: list[str]) -> None:
    """All settings of a method, so that later defaults change nothing, under lines of comment."""
    lines = [f"# {' '.join(line.split())}" for line in comments]
    lines += [f"method = {json.dumps(method.name)}", "", "[settings]"]
    lines += [f"{name} = {_in_toml(value)}" for name, value in method.settings().items()]
    write_whole(path, lambda file: file.write_text("\n".join(lines) + "\n", encoding="utf-8"))


def _in_toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_in_toml(entry) for entry in value)}]"
    return json.dumps("none" if value is None else value)
