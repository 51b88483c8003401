"""Structure-aware fuzzing: valid inputs of every kind, most of them with one or two faults, through the whole program.

``make test`` runs 300 cases; ``python -m tests.fuzz 10000`` runs as many as one likes. A case is known by its seed:
``python -m tests.fuzz 1 --first SEED`` repeats it.
"""

from __future__ import annotations

import contextlib
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from tests.fuzz import archives, arguments, experiments, markup, tables, training, written
from tests.fuzz.draws import Draw
from tests.fuzz.promises import Case, HungError, limits
from tests.fuzz.sources import originals

FAMILIES: tuple[tuple[tuple[str, Callable[[Case], str]], float], ...] = (
    (("tables", tables.case), 4),
    (("archives", archives.case), 4),
    (("markup", markup.case), 2),
    (("training", training.case), 4),
    (("written", written.case), 4),
    (("experiments", experiments.case), 2),
    (("arguments", arguments.case), 5),
)


class TooLongError(AssertionError): ...


def one_case(seed: int) -> str:
    """Run one case in a folder of its own; return its family and what came out, after checking that it may."""
    draw = Draw(seed)
    name, family = draw.weighted(FAMILIES)
    originals()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    commands: list[str] = []
    try:
        with _folder() as folder, warnings.catch_warnings(), limits():
            warnings.simplefilter("ignore")
            case = Case(seed, draw, folder / "given", folder / "out", commands)
            case.folder.mkdir()
            case.out.mkdir()
            return f"{name}: {family(case)}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what is no Exception, such as a panic in an extension module
        kind = TooLongError if isinstance(error, HungError) else AssertionError
        told = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        command = f"\ncommand: {commands[-1]}" if commands else ""
        raise kind(f"seed {seed}: {name}: {told}{command}") from error
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graphkin-fuzz-") as name, contextlib.chdir(name):
        yield Path(name)
