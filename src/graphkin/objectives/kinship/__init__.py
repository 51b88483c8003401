"""Similar nodes attract, and the mean of their scores stands outside the logarithm."""

from graphkin.objectives.kinship.settings import Kinship

__all__ = ["Kinship"]
