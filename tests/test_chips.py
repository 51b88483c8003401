"""The fused kernels as they are cut for other GPUs: correct on this one or in Triton's interpreter, and compiled for those."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from benchmarks import compile_ahead
from graphkin.objectives.kernels.fused import tiles
from graphkin.objectives.kernels.fused.tiles import Chip, Tiles
from graphkin.objectives.kernels.kinship import Form, kinship_loss
from graphkin.similarity import Stored
from graphkin.support.files import read_json
from tests.test_fused import DEVICE, embeddings, symmetric, weights_of
from tests.test_kernels import value_and_gradient
from tests.test_kinship import value_and_gradient as kinship_value_and_gradient

ON_GPU = [pytest.mark.gpu] if DEVICE == "cuda" else []
CHIPS = [
    pytest.param(compile_ahead.TARGETS[target], id=target, marks=ON_GPU) for target in ("8.0", "8.6", "9.0", "10.0", "12.0")
]


@pytest.fixture
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Chip:
    """The kernels are cut for this chip, whatever the device. What a kernel describes itself needs memory on an H200."""
    chip: Chip = request.param
    monkeypatch.setattr(tiles, "chip_of", lambda device: chip)
    if DEVICE == "cuda" and not chip.describes:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=DEVICE))
    return chip


@pytest.mark.parametrize("forced", CHIPS, indirect=True)
@pytest.mark.parametrize(("n", "d"), [(2, 3), (67, 20), (33, 130)])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_papers_objective(forced: Chip, n: int, d: int, precision: str) -> None:
    u, v = embeddings(n, d)
    anchors = torch.arange(0, n, 2)
    for kind in ("base", "plus"):
        for chosen in (None, anchors):
            exact = value_and_gradient(u, v, weights_of(Stored(symmetric(n)), kind), "reference", anchors=chosen)
            here = weights_of(Stored(symmetric(n).float().to(DEVICE)).stored(), kind)
            moved = None if chosen is None else chosen.to(DEVICE)
            views = (u.float().to(DEVICE), v.float().to(DEVICE))
            found = value_and_gradient(*views, here, "fused", precision=precision, anchors=moved)
            _assert_close(found, exact, precision)


@pytest.mark.parametrize("forced", CHIPS, indirect=True)
@pytest.mark.parametrize(("n", "d"), [(2, 3), (150, 20), (33, 130)])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_kinship(forced: Chip, n: int, d: int, precision: str) -> None:
    u, v = (view.float().to(DEVICE) for view in embeddings(n, d))
    for symmetric_form in (False, True):
        fused = partial(kinship_loss, shares=None, form=Form(0.4, symmetric_form, False, precision, "fused"))
        blocked = partial(kinship_loss, shares=None, form=Form(0.4, symmetric_form))
        _assert_close(
            kinship_value_and_gradient(fused, u, v),
            kinship_value_and_gradient(blocked, u.double(), v.double()),
            precision,
            looser=1.5 if n == 2 else 1.0,  # rounding hardly averages out: 2.02 % on an H200
        )


def _assert_close(found: Any, exact: Any, precision: str, looser: float = 1.0) -> None:
    allowed = {"float32": 1e-4, "bf16": 2e-2 * looser}[precision]
    for one, other in zip(found, exact, strict=True):
        other = other.cpu()
        assert float((one.cpu() - other).norm()) <= allowed * max(float(other.norm()), 0.1)


def test_the_chip_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        major, shared_memory_per_block_optin = 8, 166_912

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(tiles, "chip_of", tiles.chip_of.__wrapped__)
    assert tiles.chip_of(torch.device("cuda")) == compile_ahead.TARGETS["8.0"]
    Properties.major, Properties.shared_memory_per_block_optin = 9, 232_448
    assert tiles.chip_of(torch.device("cuda")) == tiles.HOPPER and tiles.HOPPER.is_hopper
    Properties.major = 10
    assert tiles.chip_of(torch.device("cuda")) == compile_ahead.TARGETS["10.0"]
    assert not compile_ahead.TARGETS["10.0"].is_hopper


def test_an_h200_keeps_the_tiles_that_were_timed_on_it() -> None:
    timed = {
        (128, "bf16"): (Tiles(256, 64, 8, 2), Tiles(128, 64, 8, 3)),
        (256, "bf16"): (Tiles(128, 64, 8, 2), Tiles(128, 32, 8, 3)),
        (256, "float32"): (Tiles(64, 32, 4, 2), Tiles(64, 32, 4, 2)),
    }
    for (width, precision), expected in timed.items():
        assert (
            tiles.sums_tiles(width, precision, tiles.HOPPER),
            tiles.gradient_tiles(width, precision, tiles.HOPPER),
        ) == expected


def test_all_that_was_compiled_fits_and_is_what_is_used() -> None:
    ahead = compile_ahead
    rows = [ahead.Row(**row) for row in read_json(ahead.RESULTS)["rows"]]
    asked = set(itertools.product(ahead.TARGETS, ahead.KERNELS, ahead.PRECISIONS, ahead.WIDTHS))
    assert {(row.target, row.kernel, row.precision, row.width) for row in rows} == asked
    for row in rows:
        assert row.fits, row
        tiles_of = ahead.KERNELS[row.kernel][1]
        assert list(tiles_of(row.width, row.precision, ahead.TARGETS[row.target])) == row.tiles, row


@pytest.mark.slow
@pytest.mark.parametrize("target", ["8.6", "10.0"])
def test_some_of_it_again(target: str, tmp_path: Path) -> None:
    """In a process of its own: the interpreter, which other tests use, replaces the compiler."""
    given = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "benchmarks.compile_ahead", "--target", target, "--width", "256", "--precision", "bf16"]
    done = subprocess.run(command, env=given | {"TRITON_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
