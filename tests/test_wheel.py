"""What users install: the wheel holds the package and no more, and does its job with the declared dependencies alone."""

from __future__ import annotations

import csv
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

import graphkin
from graphkin.errors import EXTRAS
from tests.wheels import PROJECT, ROOT, Environment, built, installed

PACKAGE = ROOT / "src" / "graphkin"
UNDECLARED = {"hypothesis", "pandas", "pytest", *EXTRAS}
Call = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The empty folder of somebody who has just installed graphkin."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def call(environment: Environment, place: Path) -> Call:
    """What a program of the environment prints; it must succeed."""

    def called(*arguments: str) -> str:
        done = environment.call(*arguments, cwd=place)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return called


@pytest.fixture(scope="module")
def cora_run(call: Call) -> str:
    call("graphkin", "fit", "--epochs", "2", "--splits", "1", "--out", "run")
    return "run"


def test_the_wheel_is_the_package_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = {file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert held == {file.relative_to(PACKAGE.parent).as_posix() for file in source}
    assert {"graphkin/py.typed", "graphkin/graphs/data/cora.npz", "graphkin/report/assets/page.css"} < held
    for folder in ("methods/settings", "experiments/definitions"):
        assert f"graphkin/{folder}/kin.toml" in held


def test_a_wheel_built_from_the_sdist_is_the_same(wheel: Path, tmp_path: Path) -> None:
    sdist = built("sdist", ROOT, tmp_path)
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    again = built("wheel", source, tmp_path)
    assert again.name == wheel.name == f"graphkin-{graphkin.__version__}-py3-none-any.whl"
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())
    assert {path.name for path in source.iterdir()} >= {"tests", "constraints.txt", "Makefile", "LICENSE", "README.md"}


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert citation["version"] == graphkin.__version__
    assert f"\n## {graphkin.__version__} ({citation['date-released']})\n" in changes


def test_each_optional_library_has_its_extra() -> None:
    extras = {name: libraries for name, libraries in PROJECT["optional-dependencies"].items() if libraries and name != "dev"}
    assert set(EXTRAS.values()) == set(extras)
    for library, extra in EXTRAS.items():
        assert any(entry.startswith(library) for entry in extras[extra]), library
        assert any(entry.startswith(library) for entry in PROJECT["optional-dependencies"]["dev"]), library


@pytest.mark.slow
def test_nothing_undeclared_is_there(call: Call, environment: Environment) -> None:
    program = "import json, sys, importlib.util as u; print(json.dumps([bool(u.find_spec(name)) for name in sys.argv[1:]]))"
    names = sorted(UNDECLARED)
    assert dict(zip(names, json.loads(call("python", "-c", program, *names)), strict=True)) == dict.fromkeys(names, False)
    assert not (environment.packages / "graphkin").is_symlink()


@pytest.mark.slow
def test_the_wheel_does_its_main_job(call: Call, cora_run: str, place: Path) -> None:
    assert call("graphkin", "--version").strip() == f"graphkin {graphkin.__version__}"
    assert json.loads(call("graphkin", "similar", cora_run, "12", "--json"))["nodes"][0]["node"] == 12
    assert call("graphkin", "evaluate", cora_run, "--splits", "1", "--no-baselines")
    program = "import graphkin; print(graphkin.load('run/model.graphkin').embed(graphkin.bundled_cora()).shape[0])"
    assert call("python", "-c", program).strip() == "2708"
    assert json.loads((place / cora_run / "run.json").read_text())["versions"]["graphkin"] == graphkin.__version__


@pytest.mark.slow
def test_two_tables_without_labels_become_clusters_similar_nodes_and_a_map(call: Call, place: Path) -> None:
    groups = write_tables(place / "shop")
    call("graphkin", "fit", "shop", "--epochs", "20", "--out", "mine")
    near = json.loads(call("graphkin", "similar", "mine", "c007", "--count", "5", "--json"))["nodes"][0]["similar"]
    assert [groups[one["node"]] for one in near] == [groups["c007"]] * 5
    call("graphkin", "cluster", "mine", "--count", "3")
    call("graphkin", "map", "mine", "--no-picture")
    call("graphkin", "report", "mine", "--layout", "pca", "--out", "mine.html")
    with (place / "mine" / "clusters.csv").open() as file:
        pairs = Counter((row["cluster"], groups[row["id"]]) for row in csv.DictReader(file))
    assert sum(count for _, count in pairs.most_common(3)) > 280
    assert "</html>" in (place / "mine.html").read_text(encoding="utf-8")
    assert (place / "mine" / "map.csv").read_text().startswith('"id","x","y","cluster"')


def write_tables(folder: Path) -> dict[str, int]:
    """300 customers of three groups that know each other, in columns of several kinds with gaps; their groups by id."""
    draw = np.random.default_rng(0)
    groups = {f"c{place:03}": place % 3 for place in range(300)}
    words = (("bread", "milk", "cheese"), ("screw", "drill", "paint"), ("novel", "poem", "atlas"))
    folder.mkdir()
    with (folder / "nodes.csv").open("w") as file:
        print("id,age,city,bought", file=file)
        for name, group in groups.items():
            age = "" if draw.random() < 0.1 else f"{draw.normal(30 + 10 * group, 8):.0f}"
            city = draw.choice(["Bonn", "Lyon", ""], p=[0.45, 0.45, 0.1])
            print(f"{name},{age},{city},{' '.join(draw.choice(words[group], 2))}", file=file)
    with (folder / "edges.csv").open("w") as file:
        print("source,target", file=file)
        for first, second in draw.integers(0, 300, (6000, 2)):
            if first < second and (first % 3 == second % 3 or draw.random() < 0.1):
                print(f"c{first:03},c{second:03}", file=file)
    return groups


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "map run --out new.csv",
            "a picture needs matplotlib, which is not installed: pip install 'graphkin[plots]', or add --no-picture",
        ),
        ("bench objective --plot p.png", "--plot needs matplotlib, which is not installed: pip install 'graphkin[plots]'"),
        ("tune nowhere", "tune needs optuna, which is not installed: pip install 'graphkin[tune]'"),
    ],
)
def test_a_missing_extra_is_one_line_before_any_work(
    arguments: str, line: str, environment: Environment, place: Path, cora_run: str
) -> None:
    """Nothing was read where nothing is to be found, and nothing was printed, measured or written."""
    before = set(place.rglob("*"))
    done = environment.call("graphkin", *arguments.split(), cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"graphkin: {line}\n")
    assert set(place.rglob("*")) - before == set()


@pytest.mark.slow
def test_a_missing_extra_in_python(environment: Environment, place: Path) -> None:
    done = environment.call("python", "-c", "import graphkin; graphkin.tune('nowhere')", cwd=place)
    assert done.stderr.splitlines()[-1].endswith("tune needs optuna, which is not installed: pip install 'graphkin[tune]'")
