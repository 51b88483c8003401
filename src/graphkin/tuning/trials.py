"""Trials in Optuna: where they are kept, which settings come next, and which trials stop early. Optuna is imported only here.

The journal gets a line for every step of a trial, and is read from its start when a search resumes. Random numbers depend on
the seed and on how many trials there are, so that a search that was killed goes on as if nothing had happened.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphkin.errors import OutputError
from graphkin.support.files import reading
from graphkin.tuning.outcome import COMPLETE, FAILED, PRUNED, Tried
from graphkin.tuning.space import Range, Space

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

JOURNAL = "trials.journal"
NAME, ASKED = "graphkin", "asked"
BEFORE_PRUNING = 5
"""complete trials, before any is compared with them"""
KEPT = 75
"""percent of the trials that go on at a look; short training ranks settings only roughly, so the worst quarter stops"""
BEFORE_IMPORTANCE = 20


@contextmanager
def opened(folder: Path | None, asked: Mapping[str, Any], space: Space, seed: int) -> Iterator[Trials]:
    """The trials in the journal of a folder, or new ones in memory. A journal of another search is refused.

    ``asked`` is all that scores depend on, by names for people.
    """
    import optuna

    told = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        if folder is None:
            yield Trials(optuna.create_study(direction="maximize"), space, seed)
            return
        journal = folder / JOURNAL
        with _alone(journal):
            _without_half_a_line(journal)
            with reading(journal, "is not the journal of a search, or is damaged", OutputError):
                study = _kept(journal)
            _check_same(study, asked, folder)
            yield Trials(study, space, seed)
    finally:
        optuna.logging.set_verbosity(told)


def _kept(journal: Path) -> Study:
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    lock: Any = _AlreadyAlone()
    storage = JournalStorage(JournalFileBackend(str(journal), lock_obj=lock))
    if NAME in optuna.get_all_study_names(storage):
        return optuna.load_study(study_name=NAME, storage=storage)
    return optuna.create_study(storage=storage, study_name=NAME, direction="maximize")


class _AlreadyAlone:
    """No lock for each line: one that a killed process leaves behind would stop the next one for a while."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return


@contextmanager
def _alone(journal: Path) -> Iterator[None]:
    """A lock that ends with the process, however that ends."""
    with journal.open("ab") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(
                f"another search is running in {journal.parent}: wait for it, or choose another folder."
            ) from error
        except (ImportError, OSError):  # a system or a file system without such locks
            pass
        yield


def _without_half_a_line(journal: Path) -> None:
    """A process that was killed while it wrote leaves one at the end."""
    content = journal.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with journal.open("r+b") as file:
            file.truncate(whole)


def _check_same(study: Study, asked: Mapping[str, Any], folder: Path) -> None:
    wanted = json.loads(json.dumps(asked))
    found = study.user_attrs.get(ASKED)
    if found is None and not study.trials:
        study.set_user_attr(ASKED, wanted)
        found = wanted
    if not isinstance(found, dict):
        raise OutputError(f"{folder / JOURNAL} is not the journal of a search: it does not say what was searched.")
    different = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
    if different:
        raise OutputError(f"{folder} holds a search with another {' and '.join(different)}: choose another folder.")


class Trials:
    """The trials of one search, in the order in which they began. Those that a kill cut off do not count; they begin again."""

    def __init__(self, study: Study, space: Space, seed: int) -> None:
        self.study, self.space, self.seed = study, space, seed
        self._begin_cut_off_ones_again()

    def _begin_cut_off_ones_again(self) -> None:
        from optuna.trial import TrialState

        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.number not in self._cut_off():
                known = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
                self.study.enqueue_trial(known, {**trial.user_attrs, "again": trial.number})
            self.study.tell(trial.number, state=TrialState.FAIL)

    def _cut_off(self) -> set[int]:
        return {trial.user_attrs["again"] for trial in self.study.trials if "again" in trial.user_attrs}

    def _counted(self) -> list[FrozenTrial]:
        cut_off = self._cut_off()
        return [trial for trial in self.study.trials if trial.state.is_finished() and trial.number not in cut_off]

    def __len__(self) -> int:
        return len(self._counted())

    def begin(self, default: Mapping[str, Any]) -> Trial:
        """The next trial; the first one has the ``default`` values, as far as they lie in the space."""
        import optuna

        if not self.study.trials:
            self.study.enqueue_trial(dict(default), {"defaults": True})
        state = np.random.SeedSequence([self.seed, len(self)]).generate_state(1)
        self.study.sampler = optuna.samplers.TPESampler(seed=int(state[0]))
        self.study.pruner = optuna.pruners.PercentilePruner(KEPT, n_startup_trials=BEFORE_PRUNING)
        trial = self.study.ask()
        for name in default if trial.user_attrs.get("defaults") else self.space.dimensions:
            _suggest(trial, self.space, name)
        return trial

    def end(self, trial: Trial, state: str, score: float | None = None, failure: str | None = None) -> None:
        from optuna.trial import TrialState

        if failure is not None:
            trial.set_user_attr("failure", failure)
        states = {COMPLETE: TrialState.COMPLETE, PRUNED: TrialState.PRUNED, FAILED: TrialState.FAIL}
        self.study.tell(trial, score, state=states[state])

    def tried(self, default: Mapping[str, Any]) -> tuple[Tried, ...]:
        """``default`` are the settings of the first trial, of which the space may hold only some."""
        return tuple(self._tried(number, trial, default) for number, trial in enumerate(self._counted(), 1))

    def _tried(self, number: int, trial: FrozenTrial, default: Mapping[str, Any]) -> Tried:
        from optuna.trial import TrialState

        first = bool(trial.user_attrs.get("defaults"))
        states = {TrialState.COMPLETE: COMPLETE, TrialState.PRUNED: PRUNED, TrialState.FAIL: FAILED}
        return Tried(
            number=number,
            state=states[trial.state],
            score=trial.value,
            settings=default if first else self.space.settings(trial.params),
            seconds=0.0 if trial.duration is None else trial.duration.total_seconds(),
            defaults=first,
            failure=trial.user_attrs.get("failure"),
        )

    def importance(self) -> dict[str, float]:
        """The share of each dimension in what makes trials good, the largest first; nothing after few trials."""
        import optuna

        complete = [trial for trial in self._counted() if trial.state.name == "COMPLETE"]
        if len(complete) < BEFORE_IMPORTANCE or len(self.space.dimensions) < 2 or len({one.value for one in complete}) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            return optuna.importance.get_param_importances(self.study, evaluator=evaluator)


def _suggest(trial: Trial, space: Space, name: str) -> None:
    dimension = space.dimensions[name]
    if not isinstance(dimension, Range):
        trial.suggest_categorical(name, dimension.texts)
    elif dimension.whole:
        trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log)
    else:
        trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
