"""EXPORT: identity of problems as work: keys of a reference that survive a rewrite
of its text, and other shapes.

    semantic   the operators that really ran, with their shapes (recorded by
               `workers/shims/problem/observers/operators.py`)
    exact      the graph of the module's computation (`app.domain.source.canonical`): names, order,
               formatting aside
    task       the same with numbers masked: a re-shaped copy of a problem has the same task
    family     only the reference's class (of a problem by cases, `get_cases`), numbers masked: six
               matrix products of different shapes are one family

String constants are kept: architectures that differ in the name of a model are different work.
Splits and decontamination go by family, because exact keys miss every re-shaped copy.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass

from app.domain.source import canonical, syntax_tree

VERSION = 3
"""Changes with everything here that changes a key."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Hexadecimal keys of one reference."""

    exact: str
    task: str
    family: str


def keys(reference: bytes, entry_point: str) -> Keys:
    """The keys of a reference.  A text that does not parse, is nested too deep to be read, or
    lacks the class has the hash of its bytes for the keys that cannot be had: it is then like
    nothing but itself.
    """
    own = _digest(reference.hex())
    try:
        return _canonical_keys(reference, entry_point, own)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Keys(exact=own, task=own, family=own)


def _canonical_keys(reference: bytes, entry_point: str, own: str) -> Keys:
    """Keys from the graph of the module, `own` where it lacks the class.  Bodies of functions are
    read by `digest`, so that it may raise RecursionError, too, and ValueError (a whole number of
    more than 4,300 digits).
    """
    with warnings.catch_warnings(action="ignore"):  # an odd escape is no fault of the problem
        tree = syntax_tree.parse(reference)
    plain, masked = canonical.Module(tree, masked=False), canonical.Module(tree, masked=True)
    first = entry_point if plain.defines(entry_point) else "get_cases"
    whole = (first, "get_inputs", "get_init_inputs")
    return Keys(
        exact=plain.digest(whole, effects=True) or own,
        task=masked.digest(whole, effects=True) or own,
        family=masked.digest((first,)) or own,
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
