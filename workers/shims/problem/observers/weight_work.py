"""Work that a reference does on its weights alone: a spectral norm by power iteration, say.

It gives the same in every call until the model is trained, so a candidate may do it once and keep
the result: a layer with the norm of a matrix of 2,048 rows, by 40 steps, then took a hundredth of
the time on an H200, and was right.  Where such work is a good part of the reference's, a probe
changes these weights in place and calls the same model again
(workers/referee/probes/perturbed_weights.py).
Below that part a candidate may prepare its weights in the first call, as packing them does.

Parameters that set how long a recurrence remembers are found, too: its state is multiplied by the
same numbers in every step, and these follow from parameters alone.  So are those on which operators
miss a limit, vanish or change nothing (weight_limits.py): the gates of branches that a clamp closes
until training opens them, say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from workers.backends.recording import library_work
from workers.backends.support.dispatch_mode import Watching, written
from workers.shims.problem.inputs.iterated_inputs import LEAST_REPEATS
from workers.shims.problem.observers.later_numbers import LaterNumbers
from workers.shims.problem.observers.repeated_uses import RepeatedUses
from workers.shims.problem.observers.weight_limits import WeightLimits

SHARE = 0.1
"""Least share of a call's modelled work, as for a kernel of a candidate's own to count as work."""

_FACTORS = frozenset(f"aten::{name}" for name in ("addcmul", "addcmul_", "lerp", "mul", "mul_"))
"""Operators that multiply element by element."""


class WeightWork(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that finds the trainable parameters of a model on which a call works without
    its inputs.
    """

    def __init__(self, model: Any, inputs: Iterable[object]) -> None:
        """`model`: any callable; one without parameters has no such work.  `inputs`: values of the
        call.
        """
        super().__init__()
        self._alone = 0
        self._used: dict[str, None] = {}
        self._steps: Counter[str] = Counter()
        """Multiplications of tensors that follow from inputs by others that follow from a
        parameter alone.
        """
        self.missed: Counter[str] = Counter()
        """Limits that values which follow from a parameter alone miss (weight_limits.py), in those
        of many equal operators that are looked at; complete once the mode has been left.
        """
        self._later = LaterNumbers()
        self._looks: list[tuple[tuple[str, ...], WeightLimits]] = []
        self._uses = RepeatedUses()
        self._names: Any = WeakIdKeyDictionary()
        """Tensors that follow from parameters alone, and the names of these."""
        self._given: Any = WeakIdKeyDictionary()
        """Inputs, and tensors that follow from one."""
        for value in inputs:
            if isinstance(value, torch.Tensor):
                self._given[value] = True
        if isinstance(model, torch.nn.Module):
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    self._names[parameter] = (name,)

    def names(self, total_bytes: int) -> tuple[str, ...]:
        """Names of these parameters; none if the work on them is a small part of the call's
        `total_bytes` (flops.FlopCounter).
        """
        return tuple(self._used) if self._alone >= SHARE * max(1, total_bytes) else ()

    def decays(self) -> tuple[str, ...]:
        """Names of the parameters by which tensors of the inputs are multiplied in many steps."""
        return tuple(name for name, steps in self._steps.items() if steps >= LEAST_REPEATS)

    def __exit__(self, *error: Any) -> None:
        """Leave the mode, and count the limits."""
        super().__exit__(*error)
        self._later.read()
        for names, look in self._looks:
            self.missed.update(dict.fromkeys(names, look.count) if look.count else ())
        self._looks.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        taken = library_work.tensors([*args, *kwargs.values()])
        is_given = any(each in self._given for each in taken)
        names = dict.fromkeys(name for each in taken for name in self._names.get(each, ()))
        is_alone = bool(names) and not is_given
        is_seen = is_alone and self._uses.is_looked_at(func._schema.name, args)
        look = WeightLimits(self._later) if is_seen else None
        if look is not None:
            look.look_before(func._schema.name, args, kwargs)
        result = func(*args, **kwargs)
        if look is not None:
            look.look_after(func._schema.name, args, kwargs, result)
            self._looks.append((tuple(names), look))
        if is_alone and (work := library_work.work_of(func, args, kwargs, result)):
            self._alone += work
            self._used |= names
        if names and is_given and func._schema.name in _FACTORS:
            self._steps.update(names.keys())
        for made in [*library_work.tensors([result]), *written(func, args, kwargs)]:
            if is_given:
                self._given[made] = True
            elif names:
                self._names[made] = tuple(names)
        return result
