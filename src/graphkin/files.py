"""Files are written whole or not at all: a reader never sees half of one, and a failure leaves the old one in place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from graphkin.errors import OutputError


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with the path of a temporary file beside ``path``, then move it there."""
    path = Path(path)
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
        write(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_tensors(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """A safetensors file."""

    def write(file: Path) -> None:
        try:
            save_file(tensors, file, metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from error

    write_whole(path, write)


def check_writable(folder: Path) -> None:
    """Make the folder and prove, before any work, that files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(f"the output folder {folder} cannot be written: {error.strerror}.") from error
