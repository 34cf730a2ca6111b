"""Plug-in families: built-ins in a typed dict, outside packages by entry point,
duplicates refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TypeVar

T = TypeVar("T")


class UnknownPluginError(ValueError):
    """A name that no built-in and no installed package offers."""


def extend(family: str, builtin: Mapping[str, T]) -> dict[str, T]:
    """The built-ins of a family (`detectors`, `formats` …) and all that entry points
    `assay.<family>` name.

    Raises ValueError where a package brings a name that exists already, and the
    errors of its import.
    """
    known = dict(builtin)
    for point in metadata.entry_points(group=f"assay.{family}"):
        if point.name in known:
            raise ValueError(f"{family}: {point.value} brings {point.name!r}, which exists already")
        known[point.name] = point.load()
    return known


def find(family: str, known: Mapping[str, T], name: str) -> T:
    """The plug-in of that name, or UnknownPluginError with the names that there are."""
    if name not in known:
        expected = ", ".join(sorted(known))
        raise UnknownPluginError(
            f"unknown {family.removesuffix('s')} {name!r}; expected one of {expected}"
        )
    return known[name]
