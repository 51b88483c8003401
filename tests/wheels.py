"""The wheel in an environment of its own, which has the declared dependencies and nothing else. Nothing is downloaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def built(kind: str, source: Path, folder: Path) -> Path:
    """The ``kind`` "wheel" or "sdist" of a source tree, by the build backend that pyproject.toml names."""
    program = f"import sys, hatchling.build; print(hatchling.build.build_{kind}(sys.argv[1]))"
    return folder / _printed([sys.executable, "-c", program, str(folder)], source).splitlines()[-1]


@dataclass(frozen=True)
class Environment:
    folder: Path

    def call(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A program of the environment, as a user starts it."""
        program, *rest = arguments
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GRAPHKIN", "TRITON"))}
        command = [str(self.programs / program), *rest]
        return subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, timeout=300, check=False)

    @property
    def programs(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("[Ll]ib/**/site-packages")
        return found


def installed(wheel: Path, folder: Path) -> Environment:
    """pip installs the wheel, and refuses if what it declares is not there."""
    venv.create(folder, with_pip=False)
    environment = Environment(folder)
    for name in sorted(needed(declared_by(wheel))):
        _link(name, environment.packages)
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(environment.programs / "python")]
    _printed([*pip, "install", "--disable-pip-version-check", "--no-index", "--no-compile", str(wheel)], folder)
    return environment


def declared_by(wheel: Path) -> list[Requirement]:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return _valid(message_from_bytes(archive.read(metadata)).get_all("Requires-Dist") or ())


def needed(wanted: list[Requirement]) -> set[str]:
    """The distributions that these requirements name, and those that they need in turn."""
    waiting, seen = list(wanted), set[tuple[str, str]]()
    while waiting:
        one = waiting.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        for extra in {"", *one.extras} - {extra for other, extra in seen if other == name}:
            seen.add((name, extra))
            waiting += _valid(distribution(name).requires or (), extra)
    return {name for name, _ in seen}


def _valid(declared: Iterable[str], extra: str = "") -> list[Requirement]:
    """The requirements that hold on this machine."""
    found = [Requirement(text) for text in declared]
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": extra})]


def _link(name: str, packages: Path) -> None:
    """What a distribution has put into the running environment, seen from the new one."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())


def _printed(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
