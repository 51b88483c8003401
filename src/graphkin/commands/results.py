"""``graphkin results export`` and ``graphkin results merge``."""

from __future__ import annotations

import contextlib

from graphkin.commands.options.results import Export, Merge
from graphkin.commands.output import say
from graphkin.errors import OutputError
from graphkin.experiments.store import Store


def export(options: Export) -> None:
    if options.out.exists() and not options.overwrite:
        raise OutputError(f"{options.out} exists already: choose another --out, or add --overwrite.")
    with contextlib.closing(Store(options.store, read_only=True)) as store:
        store.export(options.out)
        say(f"{options.out}: {len(store.finished())} runs")


def merge(options: Merge) -> None:
    opened = [Store(source, read_only=True) for source in options.sources]
    with contextlib.closing(Store(options.target)) as store:
        store.check_writable()
        for source, other in zip(options.sources, opened, strict=True):
            say(f"{source}: {store.merge(other)} runs added to {options.target}")
            other.close()
