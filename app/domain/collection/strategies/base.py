"""COLLECT: the interface of strategies."""

from __future__ import annotations

from typing import Any, Protocol

from app.domain.collection.lines import Setting
from app.domain.collection.tree import Decision, Tree
from app.domain.request import RequestError


class Strategy(Protocol):
    """Growth of one rollout.  `decide` is pure and depends on known outcomes, never on their order
    of arrival: if it needs several, it waits for all of them.
    """

    options: type[Any]
    """Frozen dataclass of its options."""

    def rollouts(self, options: Any) -> int:
        """Rollouts of one problem."""

    def most_attempts(self, options: Any) -> int:
        """Most attempts of one rollout."""

    def decide(self, tree: Tree, options: Any, setting: Setting) -> Decision:
        """Attempts to make now, or the end."""


def at_least(options: object, least: float, *names: str) -> None:
    """Raise RequestError where one of the options is below `least`."""
    for name in names:
        value = getattr(options, name)
        if value < least:
            raise RequestError(f"{name}: expected at least {least:g}, got {value!r}")


def one_of(options: object, name: str, allowed: tuple[str, ...]) -> None:
    """Raise RequestError where the option has another value."""
    value = getattr(options, name)
    if value not in allowed:
        raise RequestError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")
