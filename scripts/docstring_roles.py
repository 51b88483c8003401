"""For the documentation site: Sphinx roles in docstrings, such as ``:func:`graphkin.fit```, become plain code."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|data|mod|attr):`~?(?:[\w.]+ <)?([\w.]+)>?`")


class PlainRoles(griffe.Extension):
    """Rewrites docstrings when they are collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
