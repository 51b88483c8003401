"""Tables and figures as data, and everything that runs them: definitions, trials and jobs, the store of results, summaries."""

from graphkin.experiments.definition import Experiment, ExperimentRow
from graphkin.experiments.parsing import parse
from graphkin.experiments.shipped import BEYOND, FREE, KIN, NAMES, PEERS, SEARCHES, SHIPPED, experiment_named, experiments_named

__all__ = [
    "BEYOND",
    "FREE",
    "KIN",
    "NAMES",
    "PEERS",
    "SEARCHES",
    "SHIPPED",
    "Experiment",
    "ExperimentRow",
    "experiment_named",
    "experiments_named",
    "parse",
]
