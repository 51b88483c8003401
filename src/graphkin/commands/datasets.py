"""``graphkin datasets``."""

from __future__ import annotations

from graphkin.commands.display import dataset_table
from graphkin.commands.options.datasets import Datasets
from graphkin.commands.output import console, print_json
from graphkin.graphs.catalogue import DATASETS


def run(options: Datasets) -> None:
    if options.as_json:
        entries = [vars(dataset) | {"state": dataset.state(options.data_root)} for dataset in DATASETS.values()]
        print_json({"datasets": entries})
    else:
        console.print(dataset_table(options.data_root))
