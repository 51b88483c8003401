"""Reading ``run.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphkin.errors import OutputError
from graphkin.support.files import read_json, reading
from graphkin.support.shapes import check_shape


def read_record(folder: Path, shape: Any) -> dict[str, Any]:
    """What the run file of a folder says, which must have this shape."""
    path = folder / "run.json"
    if not path.is_file():
        raise OutputError(f"{folder} is not the folder of a run: it has no run.json, which graphkin fit writes.")
    with reading(path, "was not written by graphkin fit, or is damaged", OutputError):
        record = read_json(path)
        check_shape(record, shape)
    return dict(record)
