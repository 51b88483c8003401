from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from graphkin import Graph, fit, load
from graphkin.errors import ModelFileError, OutputError
from graphkin.methods import METHODS

QUICK: dict[str, Any] = {"epochs": 3, "hidden": 8}


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(small: Graph, method: str, tmp_path: Path) -> None:
    fitted = fit(small, method, **QUICK)
    fitted.save(tmp_path / "model.graphkin")
    again = load(tmp_path / "model.graphkin")
    assert torch.equal(again.embed(small), fitted.embed(small))
    assert (again.method, again.losses, again.seed) == (fitted.method, fitted.losses, fitted.seed)
    assert list(tmp_path.iterdir()) == [tmp_path / "model.graphkin"]
    if fitted.num_classes:
        assert torch.equal(again.predict(small), fitted.predict(small))


def rewritten(source: Path, target: Path, **changes: str | None) -> Path:
    with safe_open(source, "pt") as file:
        metadata = dict(file.metadata())
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    metadata = {key: value for key, value in {**metadata, **changes}.items() if value is not None}
    save_file(tensors, target, metadata)
    return target


def test_refused_files(small: Graph, tmp_path: Path) -> None:
    good = tmp_path / "model.graphkin"
    fit(small, "grace", **QUICK).save(good)
    bad = tmp_path / "bad.graphkin"
    with pytest.raises(ModelFileError, match="no model file at"):
        load(bad)
    for size in (0, 5, 100, len(good.read_bytes()) - 1):
        bad.write_bytes(good.read_bytes()[:size])
        with pytest.raises(ModelFileError, match="is not a graphkin model, or is cut off"):
            load(bad)
    with pytest.raises(ModelFileError, match="format version 99, newer than this graphkin reads"):
        load(rewritten(good, bad, format_version="99"))
    with pytest.raises(ModelFileError, match="newer than this graphkin reads"):
        load(rewritten(good, bad, format_version="²"))
    for other in ({"format": "pt"}, {"graphkin": None}, {"format_version": None}):
        with pytest.raises(ModelFileError, match="was not written by graphkin"):
            load(rewritten(good, bad, **other))
    with safe_open(good, "pt") as file:
        settings = file.metadata()["graphkin"]
    damages = ["{", "{}", "[]", "3", "null"]
    for old, new in (('"hidden": 8', '"hidden": 9'), ("GCN", "Virus"), ('"activation": "relu"', '"activation": 5')):
        damages.append(settings.replace(old, new))
    for damage in damages:
        with pytest.raises(ModelFileError, match=r"bad\.graphkin( is damaged|: .*(activation|'Virus'))"):
            load(rewritten(good, bad, graphkin=damage))
    save_file({"weight": torch.ones(2)}, bad)
    with pytest.raises(ModelFileError, match="was not written by graphkin"):
        load(bad)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (Path(tmp_path / "exploded"),))  # type: ignore[return-value]

    (tmp_path / "bomb.graphkin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        load(tmp_path / "bomb.graphkin")
    assert not (tmp_path / "exploded").exists()


def test_saving_where_nothing_can_be_written(small: Graph, tmp_path: Path) -> None:
    fitted = fit(small, "grace", **QUICK)
    with pytest.raises(OutputError, match="cannot be written: No such file or directory"):
        fitted.save(tmp_path / "missing" / "model.graphkin")
