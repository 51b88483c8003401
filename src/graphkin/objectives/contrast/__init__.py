"""The contrast of two views under weights: GRACE, GCA and their "+"."""

from graphkin.objectives.contrast.settings import Contrast

__all__ = ["Contrast"]
