"""Inputs under the referee's seed, even if a problem's `get_inputs` seeds
the generators itself.

A problem that seeds itself draws the same inputs in every call, and a right answer to them
proves nothing.  While inputs are drawn, seeding functions have no effect: generators
continue from the referee's seed.

This does not reach seeds in compiled code, nor data in the source or in a file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import numpy
import torch


def _referee_seed(*_: object, **__: object) -> int:
    return int(torch.randint(0, 1 << 31, ()).item())


class _Generator(torch.Generator):
    """Generator that ignores seeds and is seeded from torch's default generator."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        super().manual_seed(_referee_seed())

    def manual_seed(self, seed: int) -> torch.Generator:  # noqa: ARG002 (the interface's)
        """Ignore the seed."""
        return self


class _Random(random.Random):
    def __init__(self, *_: object) -> None:
        super().__init__(_referee_seed())

    def seed(self, *_: object, **__: object) -> None:
        """Seed once from torch's default generator; ignore all further seeds."""
        if not hasattr(self, "_seeded"):
            self._seeded = True
            super().seed(_referee_seed())


class _RandomState(numpy.random.RandomState):
    def __init__(self, *_: object) -> None:
        super().__init__(_referee_seed())


def _rng(*_: object) -> numpy.random.Generator:
    return numpy.random.Generator(numpy.random.PCG64(_referee_seed()))


REPLACEMENTS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (torch, "manual_seed", lambda _: torch.default_generator),
    (torch.random, "manual_seed", lambda _: torch.default_generator),
    (torch.cuda, "manual_seed", lambda _: None),
    (torch.cuda, "manual_seed_all", lambda _: None),
    (torch, "Generator", _Generator),
    (random, "seed", lambda *_, **__: None),
    (random, "Random", _Random),
    (numpy.random, "seed", lambda *_: None),
    (numpy.random, "default_rng", _rng),
    (numpy.random, "RandomState", _RandomState),
)
"""Places at which a problem finds seeding functions, and their replacements meanwhile."""


def states() -> tuple[Any, ...]:
    """States of the host's default generators."""
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state()


def restore(before: tuple[Any, ...]) -> None:
    """Set the host's default generators to earlier states."""
    of_torch, of_python, of_numpy = before
    torch.set_rng_state(of_torch)
    random.setstate(of_python)
    numpy.random.set_state(of_numpy)


@contextmanager
def unseeded(problem: ModuleType) -> Iterator[None]:
    """Disable seeding, under any name that the problem's module has for it."""
    with ExitStack() as stack:
        known = {id(getattr(place, name)): instead for place, name, instead in REPLACEMENTS}
        own = {
            name: known[id(value)] for name, value in vars(problem).items() if id(value) in known
        }
        for place, name, instead in REPLACEMENTS:
            stack.enter_context(mock.patch.object(place, name, instead))
        stack.enter_context(mock.patch.dict(vars(problem), own))
        yield
