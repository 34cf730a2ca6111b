"""COLLECT: interface of a version of the feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

from app.domain.collection.answers import Why
from app.domain.collection.feedback.facts import FeedbackFacts


class Render(Protocol):
    """Text for an evaluated answer, or for one without a candidate."""

    def __call__(self, facts: FeedbackFacts | None, why: Why) -> str:
        """The text."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """A way to give feedback."""

    name: str
    render: Render
    sha256: str
    """Hash of the files that it is written in, hexadecimal."""


def digest(modules: Iterable[ModuleType]) -> str:
    """Hash of the modules' files, in order."""
    found = hashlib.sha256()
    for module in modules:
        assert module.__file__ is not None
        found.update(
            Path(module.__file__).read_bytes().replace(b"kernel_assay.", b"app.")
        )  # the same bytes as in a checkout
    return found.hexdigest()
