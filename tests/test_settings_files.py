"""Settings of a method in a user's TOML file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import graphkin
from graphkin import Graph
from graphkin.errors import SettingError
from graphkin.graphs.synthetic import community_graph
from tests.searches import quick


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(150, classes=3, mean_degree=8, words=30, words_of_node=8)


def test_settings_and_trials_are_written(graph: Graph, tmp_path: Path) -> None:
    tuned = quick(graph, "grace+", search={"activation": ["relu", "prelu"]})
    tuned.write(tmp_path)
    fitted = graphkin.fit(graph, preset=tmp_path / "settings.toml", progress="none")
    assert fitted.method.configure(feature_scale="auto") == tuned.method
    with (tmp_path / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == [one.state for one in tuned.tried]
    assert {row["activation"] for row in rows} <= {"relu", "prelu"}
    json.dumps(tuned.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("method = ", "is not a settings file"),
        ('method = "grace+"', "settings must be there"),
        ("[settings]\ntau = 0.4\n", "method must be there"),
        ('method = "grase"\n[settings]\n', "unknown method 'grase'"),
        ('method = "grace"\n[settings]\nbeta = 0.5\n', "unknown setting for grace 'beta'"),
        ('method = "grace"\n[settings]\ntau = -1\n', "tau must be a number > 0, found -1"),
        ('method = "grace"\n[settings]\ntau = { a = 1 }\n', "tau must be a number"),
        ('method = "grace"\n[settings]\n[more]\n', "found more besides"),
        ("\xff\xfe", "is not a settings file"),
    ],
)
def test_a_bad_settings_file_is_one_line(content: str, words: str, graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SettingError, match=words) as caught:
        graphkin.fit(graph, preset=str(path))
    assert str(path) in str(caught.value)


def test_settings_of_a_version_with_sampled_neighbours_are_read(graph: Graph, tmp_path: Path) -> None:
    """The setting was taken out; files hold all settings, so every earlier one has it."""
    path = tmp_path / "settings.toml"
    path.write_text('method = "grace+"\n[settings]\nepochs = 2\nhidden = 8\ncandidates = 20\nneighbours = "none"\n')
    assert graphkin.fit(graph, preset=path).method.settings()["candidates"] == 20
    path.write_text(path.read_text().replace('"none"', "3"))
    with pytest.raises(SettingError, match=r"unknown setting for grace\+ 'neighbours'"):
        graphkin.fit(graph, preset=path)


def test_a_preset_of_another_method_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('method = "grace"\n[settings]\nepochs = 2\nhidden = 8\n')
    assert graphkin.fit(graph, preset=path).method.name == "grace"
    assert graphkin.fit(graph, "grace", preset=path, epochs=3).method.optimiser.epochs == 3
    with pytest.raises(SettingError, match=r"has settings of grace; .* found 'gca'"):
        graphkin.fit(graph, "gca", preset=path)
    with pytest.raises(SettingError, match="no settings file at"):
        graphkin.fit(graph, preset=tmp_path / "other.toml")
