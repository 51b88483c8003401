"""The graphs that have names: what is known about each, and where its files are looked for.

Nothing here reads a graph or needs PyTorch; :mod:`graphkin.graphs.datasets` does.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

DEFAULT = "cora-bundled"
VARIABLE = "GRAPHKIN_DATA"


@dataclass(frozen=True)
class Dataset:
    name: str
    nodes: int
    edges: int
    """Undirected, without self loops."""
    features: int
    classes: int
    source: str
    licence: str
    folder: str = ""
    """Where PyTorch Geometric keeps it below a root that holds several of its datasets."""
    url: str = ""
    """The web address of the folder that the raw files are published in."""
    files: dict[str, str] = field(default_factory=dict)
    """Raw files and their SHA-256, empty where it is not known."""

    def raw_folder(self, data_root: str | Path | None = None) -> Path | None:
        """The folder with all raw files, if there is one."""
        places = [self.folder, self.folder.partition("/")[2] or self.folder, ""]
        for root in data_roots(data_root):
            for place in places:
                raw = root / place / "raw"
                if self.files and all((raw / file).is_file() for file in self.files):
                    return raw
        return None

    def state(self, data_root: str | Path | None = None) -> str:
        if not self.files:
            return "bundled"
        return "to download" if self.raw_folder(data_root) is None else "cached"


def data_roots(data_root: str | Path | None = None) -> Iterator[Path]:
    """The given root, then $GRAPHKIN_DATA, then the user's cache."""
    if data_root is not None:
        yield Path(data_root)
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE])
    yield cache_folder()


def cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("graphkin") / "data"


def _known() -> dict[str, Dataset]:
    text = resources.files("graphkin.graphs").joinpath("data", "datasets.toml").read_text(encoding="utf-8")
    return {name: Dataset(name=name, **entry) for name, entry in tomllib.loads(text).items()}


DATASETS = _known()
