"""A user's files. They are written whole or not at all, and a file that cannot be read is named in a one-line error."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from graphkin.errors import InputError, OutputError, first_line

npy: Any = np.lib.format
PART = ".part"
"""The end of the name of a file that is being written: .NAME.HOST-PROCESS.part."""
CLOCKS_DIFFER = 2
"""Seconds by which a file system's clock may differ from that of processes."""


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with the path of a temporary file in the same folder, then move that file to ``path``.

    The file gets the permissions that the user's umask gives. What a killed process left of the same file is removed.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{_here()}-{os.getpid()}{PART}")
    try:
        remove_leftovers(path.parent, path.name)
        temporary.touch()
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or first_line(error)}.") from error
    finally:
        with suppress(OSError):  # moved, or never made
            temporary.unlink()


def write_tensors(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """A safetensors file. The library's own writer would leave a temporary file with another name when killed."""
    write_whole(path, lambda file: file.write_bytes(save(tensors, metadata)))


def check_writable(folder: Path) -> None:
    """Make the folder and prove, before any work, that files can be written there."""
    trial = folder / f".trial.{_here()}-{os.getpid()}{PART}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        trial.write_bytes(b"graphkin")
    except OSError as error:
        raise OutputError(f"the output folder {folder} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            trial.unlink()


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove the temporary files of killed processes of this machine: all of them, or those of one ``name``."""
    for path in folder.glob(f".*{PART}"):
        found = re.fullmatch(rf"\.(.+)\.{re.escape(_here())}-(\d{{1,9}}){re.escape(PART)}", path.name)
        if found and name in ("", found[1]) and _writer_is_gone(path, int(found[2])):
            with suppress(OSError):
                path.unlink()


def _writer_is_gone(path: Path, process: int) -> bool:
    """Whether the process that wrote a file is gone. Another one may have its number now."""
    try:
        return bool(path.stat().st_mtime < psutil.Process(process).create_time() - CLOCKS_DIFFER)
    except psutil.NoSuchProcess:
        return True
    except (OSError, psutil.AccessDenied):
        return False


@contextmanager
def reading(path: str | Path, complaint: str, kind: type[InputError]) -> Iterator[None]:
    """Turn whatever goes wrong inside into one line with the file's name, the ``complaint`` and the reason."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise kind(f"{path}: {error}") from error
    except Exception as error:  # a damaged file can lead a reader to almost anything
        raise kind(f"{path} {complaint} ({reason_of(error)}).") from error


def reason_of(error: Exception) -> str:
    """What an error inside a reader says about the file."""
    if isinstance(error, MemoryError):
        return "it does not fit into the memory of this machine"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return first_line(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {first_line(error)}"


def checked_path(path: Any) -> Path:
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise InputError(f"a path must be a string or a pathlib.Path, found {path!r}.")
    return Path(path)


def read_array(path: Path) -> np.ndarray:
    """A .npy file without pickles. A header that promises more than the file holds is refused before memory is allocated."""
    with path.open("rb") as file:
        _check_promise(file, path.stat().st_size)
        file.seek(0)
        return np.asarray(npy.read_array(file, allow_pickle=False))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a .npz archive without pickles, each with the same check. Together they must fit into memory."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        check_memory("the arrays of the archive", sum(member.file_size for member in members.values()))
        arrays = {}
        for name, member in members.items():
            with archive.open(member) as stream:
                _check_promise(stream, member.file_size)
            with archive.open(member) as stream:
                arrays[name] = np.asarray(npy.read_array(stream, allow_pickle=False))
        return arrays


def _check_promise(stream: Any, size: int) -> None:
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"its version of the .npy format is {version}")
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled")
    promised, held = dtype.itemsize * int(np.prod(shape, dtype=object)), size - stream.tell()
    if promised != held:
        raise ValueError(f"its header promises {promised:,} bytes (shape {shape}), found {held:,}")


def check_memory(what: str, needed: int) -> None:
    """Refuse what does not fit into the memory of this machine, before it is allocated."""
    there = psutil.virtual_memory().total
    if needed > there:
        raise InputError(f"{what} would take {needed / 2**30:,.1f} GiB, and this machine has {there / 2**30:,.1f} GiB.")


def read_json(path: Path) -> Any:
    return parse_json(path.read_text(encoding="utf-8"))


def parse_json(text: str) -> Any:
    """Plain data; NaN and infinite numbers, which JSON does not have, are refused."""

    def number(digits: str) -> float:
        if not math.isfinite(float(digits)):
            raise ValueError(f"its numbers must be finite, found {digits[:20]}")
        return float(digits)

    return json.loads(text, parse_float=number, parse_constant=number)


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of a safetensors file, in which nothing can be executed."""
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def _here() -> str:
    """The machine, as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())[:32] or "localhost"


def write_json(path: Path, record: dict[str, Any] | list[dict[str, Any]]) -> None:
    write_whole(path, lambda file: file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8"))
