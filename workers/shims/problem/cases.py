"""Problems by cases in the reference's process: each case is a problem with a model
that returns the known answer.

`get_cases()` is called for each input set, under that set's seed: random cases differ
in every call; a case with fixed inputs and answer is the same in every call, which the
spec records (`output_constant`).
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.problem_case import NAME_CHARS, Case

MOST = 100
"""Cases of a problem; the candidate has a process of its own for each."""

OTHER_TOLERANCE = 1e-5
"""Default of a case that has only one of rtol and atol.  Source: KernelGYM,
toolkit/kernel_simple.
"""

KEPT = 4
"""Answers that are remembered: while a problem is described, several draws of a case are in use."""


class CaseModel:
    """Model of one case: draws its inputs and, called with them, returns its outputs."""

    def __init__(
        self, get_cases: Callable[[], Iterable[object]], index: int, device: torch.device
    ) -> None:
        """`index`: number of the case, from 0."""
        self._get_cases = get_cases
        self._index = index
        self._device = device
        self._drawn: deque[tuple[list[Any], Any]] = deque(maxlen=KEPT)

    def described(self) -> Case:
        """The case's name, tolerances and keywords.  Raises ValueError and TypeError."""
        cases = _listed(self._get_cases())
        count = len(list(islice(cases, MOST + 1)))
        if not 0 < count <= MOST:
            raise ValueError(
                f"get_cases: expected 1 to {MOST} cases, got {'more' if count else 'none'}"
            )
        fields = self._fields()
        name = str(fields.get("name") or f"case_{self._index}")
        given = _either(fields, f"case {self._index}", "inputs")
        keywords = tuple(sorted(given)) if isinstance(given, dict) else ()
        rtol, atol = (_tolerance(name, key, fields.get(key)) for key in ("rtol", "atol"))
        if (rtol is None) != (atol is None):
            rtol, atol = (OTHER_TOLERANCE if each is None else each for each in (rtol, atol))
        return Case(
            index=self._index,
            of=count,
            name=name[:NAME_CHARS],
            rtol=rtol,
            atol=atol,
            keywords=keywords,
        )

    def draw(self) -> list[Any]:
        """Inputs in order; named inputs are sorted by name."""
        fields = self._fields()
        where = f"case {self._index}"
        inputs, outputs = (_either(fields, where, name) for name in ("inputs", "outputs"))
        if isinstance(inputs, dict):
            given = [inputs[name] for name in sorted(inputs)]
        else:
            given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        placed: list[Any] = layout.placed(given, self._device)
        self._drawn.append((placed, layout.placed(outputs, self._device)))
        return placed

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for one of the last drawn inputs.  Raises ValueError for other inputs."""
        asked = list(inputs)
        for known, outputs in reversed(self._drawn):
            if len(known) == len(asked) and (
                all(map(operator.is_, known, asked)) or _same(known, asked)
            ):
                return outputs
        raise ValueError("a case has an answer to its own inputs alone")

    def __deepcopy__(self, memo: dict[int, Any]) -> CaseModel:
        """The same object, because nothing in it depends on a precision or a session."""
        return self

    def _fields(self) -> dict[str, Any]:
        found = next(islice(_listed(self._get_cases()), self._index, None), None)
        if not isinstance(found, dict):
            came = "fewer cases" if found is None else type(found).__name__
            raise TypeError(
                f"case {self._index}: expected a dict with inputs and outputs, got {came}"
            )
        return found


def _listed(cases: object) -> Iterable[object]:
    """The cases as an iterable; a single dict is one case."""
    if isinstance(cases, dict):
        return iter([cases])
    if not isinstance(cases, Iterable) or isinstance(cases, str | bytes | torch.Tensor):
        raise TypeError(f"get_cases: expected a list of dicts, got {type(cases).__name__}")
    return iter(cases)


def _either(fields: dict[str, Any], where: str, name: str) -> Any:
    """The field under its name or under the singular of it."""
    found = fields.get(name, fields.get(name.removesuffix("s")))
    if found is None:
        raise ValueError(
            f"{where}: expected {name}, found {', '.join(sorted(map(str, fields))) or 'nothing'}"
        )
    return found


def _tolerance(case: str, name: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"case {case!r}, {name}: expected a number from 0 on, got {value!r}")
    return float(value)


def _same(known: list[Any], asked: list[Any]) -> bool:
    """Test whether inputs agree in structure, types and values."""
    return layout.describe(known) == layout.describe(asked) and layout.same(known, asked)
