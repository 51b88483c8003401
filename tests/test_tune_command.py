"""``graphkin tune``: what it prints and writes, its page, and what signals leave behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from graphkin.commands.cli import run
from graphkin.commands.options.tune import parse_search, parse_time
from graphkin.errors import DivergedError, SettingError
from graphkin.report.charts import Chart, Mark, Series, log_scale, scale_of
from graphkin.tuning.scoring import Scorer
from tests.killed_at import STEP, AtCall, AtWrite, Point, ended, start, words
from tests.kills import new_folder

EPOCHS, TRIALS = 3, 4
TUNE = [
    *("tune", "synthetic-150", "--method", "grace", "--trials", str(TRIALS), "--splits", "2", "--device", "cpu"),
    *("--set", "hidden=8", "--set", f"epochs={EPOCHS}", "--out", "search"),
]
FILES = ["settings.toml", "trials.csv", "trials.journal", "tune.html"]


def test_a_search_ends_with_settings_for_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TUNE, "--search", "activation=relu,prelu"]) == 0
    out, err = capsys.readouterr()
    assert sorted(path.name for path in (folder / "search").iterdir()) == FILES
    assert err.count("trial ") == TRIALS and "without a search" in err
    assert "the best trials" in out and "no search" in out
    command = out.strip().splitlines()[-1].split()
    assert command == ["graphkin", "fit", "synthetic-150", "--preset", "search/settings.toml"]
    assert run([*command[1:], "--quiet", "--splits", "1", "--no-baselines"]) == 0
    assert f"trained for {EPOCHS} epochs" in capsys.readouterr().out
    page = (folder / "search" / "tune.html").read_text(encoding="utf-8")
    assert page.count('<path class="defaults" d=') >= 3 and "http" not in page.replace("http-equiv", "")


def test_json_is_one_object_and_quiet_is_quiet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TUNE, "--quiet", "--json", "--criterion", "edges"]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == "" and record["criterion"] == "edges" and len(record["trials"]) == TRIALS
    assert record["score"] >= record["default_score"] == record["trials"][0]["score"]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (["--search", "tau"], "--search takes"),
        (["--search", "tau=1:2:3:4"], "--search takes"),
        (["--search", "tau=1:2:lin"], "--search takes NAME=LOW:HIGH:log"),
        (["--search", "tau=2:1"], "low < high"),
        (["--search", "beta=0:1"], "unknown setting for grace 'beta'"),
        (["--search", "hidden=4:8"], "searched or fixed"),
        (["--time", "soon"], "--time must be"),
        (["--criterion", "luck"], "unknown criterion"),
        (["--protocol", "clustering"], "unknown protocol"),
        (["--protocol", "public"], "no public split"),
        (["--preset", "nowhere.toml"], "no settings file at nowhere.toml"),
    ],
)
def test_a_mistake_is_one_line(more: list[str], found: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TUNE, "--quiet", *more]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and found in err


def test_trials_that_all_fail_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(self: Scorer, method: object, hopeless: object) -> float:
        raise DivergedError("the loss became nan")

    monkeypatch.setattr(Scorer, "score", diverge)
    assert run([*TUNE, "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == f"graphkin: all {TRIALS} trials failed; the first one: the loss became nan\n"


def test_times_and_ranges() -> None:
    times = {"90s": 90, "10m": 600, "1h30m": 5400, "45": 45, "2h": 7200}
    assert {text: parse_time(text) for text in times} == times
    for text in ("", "m", "-3s", "1d", "10 minutes"):
        with pytest.raises(SettingError, match="--time"):
            parse_time(text)
    assert parse_search(["tau=0.1:1:log", "drop-edges=0:0.5", "hidden=8,16", "activation=relu"]) == {
        "tau": {"low": 0.1, "high": 1, "log": True},
        "drop_edges": {"low": 0, "high": 0.5, "log": False},
        "hidden": {"choices": [8, 16]},
        "activation": {"choices": ["relu"]},
    }


def test_charts_hold_their_marks() -> None:
    y = scale_of([71.2, 83.9])
    assert (y.low, y.high) == (70, 85) and [text for _, text in y.ticks] == ["70", "75", "80", "85"]
    assert scale_of([5.0, 5.0]).low < 5 < scale_of([5.0, 5.0]).high
    x = log_scale([0.05], 0.1, 10)
    assert x.low == 0.05 and [text for _, text in x.ticks] == ["0.1", "1", "10"]
    chart = Chart("tau", x, y, [Series("", "c0", marks=[Mark(0.05, 71.2, "complete", "")])])
    left, top, right, bottom = chart.box
    assert chart.at_x(0.05) == left and chart.at_x(10) == right
    assert chart.at_y(70) == bottom and chart.at_y(85) == top


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = new_folder(tmp_path_factory.mktemp("tune"), "undisturbed")
    assert ended(start(TUNE, folder)) == 0, words(folder)
    return result_of(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(AtCall("graphkin.tuning.trials:Trials.begin", 1), id="before the first trial"),
        pytest.param(AtCall(STEP, 2), id="in the first trial"),
        pytest.param(AtCall(STEP, 2 * EPOCHS + 2), id="in the third trial"),
        pytest.param(AtCall("graphkin.tuning.trials:Trials.end", 2), id="before a score is kept"),
        pytest.param(AtWrite("settings.toml"), id="half of the settings"),
        pytest.param(AtWrite("tune.html"), id="half a page"),
    ],
)
def test_a_killed_search_resumes_and_ends_the_same(point: Point, undisturbed: list[str], tmp_path: Path) -> None:
    killed = new_folder(tmp_path, "killed")
    assert ended(start(TUNE, killed, point)) == -signal.SIGKILL, words(killed)
    assert ended(start(TUNE, killed)) == 0, words(killed)
    assert result_of(killed) == undisturbed


def result_of(folder: Path) -> list[str]:
    """The settings, the trials less their seconds, and which files there are."""
    found = folder / "search"
    trials = [line.split(",") for line in (found / "trials.csv").read_text(encoding="utf-8").splitlines()]
    files = sorted(path.name for path in found.iterdir())
    return [(found / "settings.toml").read_text(encoding="utf-8"), *(str(row[:3] + row[4:]) for row in trials), *files]


@pytest.mark.slow
def test_ctrl_c_ends_after_the_current_trial_and_sigterm_at_once(undisturbed: list[str], tmp_path: Path) -> None:
    stopped, terminated = new_folder(tmp_path, "stopped"), new_folder(tmp_path, "terminated")
    assert ended(start(TUNE, stopped, AtCall(STEP, EPOCHS + 1, signal.SIGINT))) == 130, words(stopped)
    assert "run the same command again to resume" in words(stopped) and words(stopped).count(" complete ") == 2
    assert sorted(path.name for path in (stopped / "search").iterdir()) == FILES
    assert ended(start(TUNE, terminated, AtCall(STEP, EPOCHS + 1, signal.SIGTERM))) == 143, words(terminated)
    for folder in (stopped, terminated):
        assert ended(start(TUNE, folder)) == 0, words(folder)
        assert result_of(folder) == undisturbed
