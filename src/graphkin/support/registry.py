"""Names and what they stand for: methods, encoders, objectives, similarities and protocols are declared in registries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from graphkin.errors import SettingError, check_text, unknown

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Values by name, in the order of declaration. A name is never given to another value."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, value: T) -> T:
        """Declare ``value`` under ``name``. Declaring the same value again changes nothing; another value is refused."""
        check_text(f"the name of a {self.kind}", name)
        if self._entries.setdefault(name, value) is not value:
            raise SettingError(f"there is a {self.kind} named {name!r} already: choose another name.")
        return value

    def named(self, name: str) -> T:
        """The value of a user's ``name``; an error suggests the nearest name."""
        check_text(self.kind, name)
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __repr__(self) -> str:
        return f"Registry({self.kind}: {', '.join(self)})"

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
