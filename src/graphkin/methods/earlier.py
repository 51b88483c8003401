"""The form in which version 0.1 wrote methods: objective and sampling were not components, their settings lay in the method and
its optimiser. Model files, checkpoints and the keys of stored runs have it. And settings that there are no more."""

from __future__ import annotations

from typing import Any

from graphkin.execution import Sampling

TWO_VIEWS, ONE_VIEW = "Contrast", "NeighbourhoodContrast"
OF_OBJECTIVE = ("positives", "negatives", "similarity", "supervision", "tau", "pooling", "projector")
TAKEN_OUT = {"Sampling": ("neighbours",)}
"""settings of components that only training read: the models in files that mention them embed as before"""
OF_SAMPLING = (*Sampling.__dataclass_fields__, *TAKEN_OUT["Sampling"])
WITHOUT_SAMPLING = {"anchors": None, "positives_sampled": None, "negatives_sampled": None, "precision": "auto"}


def is_earlier(data: dict[str, Any]) -> bool:
    return data.get("type") == "Method" and "objective" not in data


def was_known(data: dict[str, Any]) -> bool:
    """Whether version 0.1 could have written this method."""
    objective = data["objective"]
    return objective["type"] in (TWO_VIEWS, ONE_VIEW) and objective.keys() <= {"type", "precision", *OF_OBJECTIVE}


def in_slots(data: dict[str, Any]) -> dict[str, Any]:
    """From the earlier form to today's."""
    two_views = data["supervision"] is None
    optimiser, objective = dict(data["optimiser"]), {name: data[name] for name in OF_OBJECTIVE}
    sampling = {name: optimiser.pop(name) for name in OF_SAMPLING if name in optimiser}
    objective["precision"] = optimiser.pop("precision")
    for name in ("supervision",) if two_views else ("pooling", "projector", "precision"):
        del objective[name]
    return {
        **{name: data[name] for name in ("type", "name", "encoder", "views", "feature_scale")},
        "objective": {"type": TWO_VIEWS if two_views else ONE_VIEW, **objective},
        "optimiser": optimiser,
        "sampling": {"type": "Sampling", **sampling} if two_views else None,
    }


def flat(data: dict[str, Any]) -> dict[str, Any]:
    """From today's form to the earlier one."""
    objective = {"supervision": None, "pooling": "sum", "projector": None, **data["objective"]}
    sampling = WITHOUT_SAMPLING if data["sampling"] is None else {**data["sampling"], "precision": objective["precision"]}
    return {
        **{name: data[name] for name in ("type", "name", "encoder", "views", "feature_scale")},
        **{name: objective[name] for name in OF_OBJECTIVE},
        "optimiser": {**sampling, **data["optimiser"]},
    }
