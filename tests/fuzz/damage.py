"""Changes to bytes, to JSON and to files with tensors: one or two of them make a valid file a broken one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.torch import save_file

from tests.fuzz.draws import Draw

DEEP = "[" * 100_000
RAW = {"@inf@": "1e999", "@nan@": "NaN", "@deep@": DEEP + "]" * 100_000, "@open@": DEEP, "@long@": "9" * 5000}
"""what Python would not write into JSON, put in as text"""
ODD: tuple[Any, ...] = (
    None, [], {}, "x", "", 10**400, -1, 0, 1.5, 1e308, True, [[]], {"x": None}, "\x1b[31m", 2**63, [None], "none", "nan",
    *RAW,
)  # fmt: skip


def flip(data: bytes, draw: Draw) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.whole(1, 3) if data else 0):
        changed[draw.whole(0, len(data) - 1)] ^= draw.pick((0xFF, 1, 0x80))
    return bytes(changed)


def cut(data: bytes, draw: Draw) -> bytes:
    return data[: draw.whole(0, len(data))]


def insert(data: bytes, draw: Draw) -> bytes:
    place = draw.whole(0, len(data))
    noise = draw.pick((draw.random.bytes(3), b"\x00", b"\xff\xfe", b"\x1b[31m", b"\n", b"9" * 400))
    return data[:place] + noise + data[place:]


def blank(data: bytes, draw: Draw) -> bytes:
    """Some bytes become zero."""
    place = draw.whole(0, len(data))
    return data[:place] + b"\x00" * len(data[place : place + 16]) + data[place + 16 :]


def repeat(data: bytes, draw: Draw) -> bytes:
    return data + data[: draw.whole(0, len(data))]


BYTES: tuple[Callable[[bytes, Draw], bytes], ...] = (flip, cut, insert, blank, repeat)


def damaged_bytes(path: Path, draw: Draw) -> None:
    path.write_bytes(draw.pick(BYTES)(path.read_bytes(), draw))


def damaged_json(text: str, draw: Draw) -> str:
    """One value, or one key, of a JSON text."""
    value = json.loads(text)
    places = list(_places(value))
    container, key = draw.pick(places) if places else ([value], 0)
    if isinstance(container, dict) and draw.chance(0.2):
        del container[key]
    elif isinstance(container, dict) and draw.chance(0.1):
        container["unheard of"] = container.pop(key)
    else:
        container[key] = draw.pick(ODD)
    text = json.dumps(value)
    for word, raw in RAW.items():
        text = text.replace(f'"{word}"', raw)
    return text


def damaged_json_file(path: Path, draw: Draw) -> None:
    path.write_text(damaged_json(path.read_text(encoding="utf-8"), draw), encoding="utf-8")


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in ``value`` with every key; long lists are looked into at their ends."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else [*range(len(value))[:3], *range(len(value))[3:][-1:]]
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += _places(value[key])
    return found


def damaged_tensors(path: Path, draw: Draw) -> None:
    """A safetensors file that is still one: its parameters, or the settings in its metadata."""
    with safe_open(path, framework="pt") as file:
        metadata, tensors = dict(file.metadata()), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    name = draw.pick(sorted(tensors))
    how = draw.whole(0, 5)
    if how == 0:
        metadata[draw.pick(sorted(metadata))] = draw.pick(("", "x", "-1", "99", "\x1b[31m", "NaN", DEEP, "9" * 5000))
    elif how == 1:
        del tensors[name]
    elif how == 2:
        tensors[name] = tensors[name].flatten()[:-1].clone()
    elif how == 3:
        tensors[name] = tensors[name].double() if draw.chance(0.5) else tensors[name].bool()
    elif how == 4 and tensors[name].is_floating_point() and tensors[name].numel():
        tensors[name].view(-1)[draw.whole(0, tensors[name].numel() - 1)] = draw.pick((np.nan, np.inf, -np.inf, 3e38))
    else:
        key = draw.pick([key for key in ("graphkin", "identity") if key in metadata])
        metadata[key] = damaged_json(metadata[key], draw)
    save_file(tensors, path, metadata)


def damaged_header(path: Path, draw: Draw) -> None:
    """The JSON in which a safetensors file says where its tensors lie."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = damaged_json(data[8 : 8 + size].decode(), draw).encode("utf-8")
    told = len(header) if draw.chance(0.8) else draw.pick((0, 2**63, len(header) + 1, 10**9))
    path.write_bytes(struct.pack("<Q", told) + header + data[8 + size :])
