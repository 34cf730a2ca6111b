"""Inputs on which fewer steps of a reference give another answer, found by trying.

A method often converges on random inputs in a tenth of its steps, and nothing shows a candidate
that makes no more.  The loops of a reference (`for … in range(…)`) can be cut short, so
several changes of its inputs are tried, and those are kept with which half or an eighth of
the steps give another answer:

* Far: 128, 64 or 32 times as large, bounded or not.
* Coupled: square matrices with larger elements beside the diagonal, and rows of others that differ
  little: sweeps over the diagonal then converge slowly, and to a vector of such rows.
* Close: nearly diagonal matrices with eigenvalues that lie close, of the usual size, also where
  `iterated_inputs.diagonal` makes triangular ones.
* Mixed: each column in an order of its own, which dissolves clusters.
* Alike: columns that differ little, so that systems are badly conditioned.
* Near: a 128th as large.

A loop may end by itself, once a number that Python reads is small enough.  Then the changes are
kept with which it takes half as many steps more.

The reference must be well behaved on them (`iterated_inputs.are_well_behaved`).  This does not see
loops without `range` that read no numbers, and changes no inputs of which half of the steps already
tell.
"""

from __future__ import annotations

import builtins
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout
from workers.protocol.roundoff import computable, errors
from workers.shims.problem.inputs import input_changes, input_domain, iterated_inputs, local_changes
from workers.shims.problem.inputs.local_changes import Change
from workers.shims.problem.reference_session import call

FEWER = (2, 8)
"""Divisors of the number of steps."""

TELLS = 0.01
"""Least change of an answer by fewer steps, in relative L2: half of the error that a right one may
have, since a candidate may make fewer still.
"""

MOST_KEPT = 2
"""Most changes that are kept for a problem: those with which the fewest steps suffice least."""

LONGER, LONGER_S = 1.5, 5.0
"""Least number of steps of a loop that ends by itself, relative to that on the problem's own
inputs; and the time limit in seconds for the search of such inputs.
"""

SEARCH_S = 10.0
"""Time limit in seconds for the search; changes that were not tried by then are left out."""

IN_PART, FEW_OF_THESE = 5 / 6, 3 / 5
"""Share of the calls in which only some matrices of a batch are changed, and of these in which few
are: a candidate may look at others to tell how many steps it needs.
"""

SHARED = 0.9
"""Part of alike rows or columns that is the first one's."""

Answer = Callable[[list[Any]], list[torch.Tensor]]


@contextmanager
def fewer_steps(model: Any, divisor: int) -> Iterator[list[int]]:
    """Context in which loops over ranges in the model's module end early; gives the numbers of
    steps of those that do.
    """
    names, cut = _names(model), list[int]()
    before = names.get("range")

    def shorter(*bounds: Any) -> range:
        steps = builtins.range(*bounds)
        if len(steps) < divisor:
            return steps
        cut.append(len(steps))
        return steps[: max(1, len(steps) // divisor)]

    names["range"] = shorter
    try:
        yield cut
    finally:
        if before is None:
            del names["range"]
        else:
            names["range"] = before


def _names(model: Any) -> dict[str, Any]:
    """Global names of the code that computes an answer."""
    code = type(model).forward if isinstance(model, torch.nn.Module) else model
    found: dict[str, Any] = getattr(code, "__globals__", {})
    return found


def find(model: Any, inputs: list[Any]) -> tuple[str, ...]:
    """Names of changes (CHANGES) with which fewer steps tell, if they do not on these inputs.
    Neither model nor inputs are changed.
    """
    found: dict[str, tuple[float, ...]] = {}

    def answer(given: list[Any]) -> list[torch.Tensor]:
        made = call(model, copy.deepcopy(given))
        return [x for x in layout.values(made) if input_changes.is_float(x)]

    try:
        with TimeLimit(SEARCH_S):
            usual = answer(inputs)
            with fewer_steps(model, FEWER[0]) as cut:
                early = answer(inputs)
            if not usual or not cut or _difference(early, usual) > TELLS:
                return ()
            for name, change in CHANGES.items():
                given = applied(change, inputs)
                lost = _lost_on(answer, model, given, usual) if given is not inputs else ()
                if max(lost, default=0.0) > TELLS:
                    found[name] = lost
    except Exception:  # noqa: BLE001 (the problem's code may raise anything with fewer steps)
        if not found:
            return ()
    return tuple(sorted(found, key=found.__getitem__, reverse=True)[:MOST_KEPT])


class Readings(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that counts the numbers that Python reads out of tensors."""

    def __init__(self) -> None:
        """Starts at zero."""
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def find_longer(model: Any, inputs: list[Any]) -> tuple[str, ...]:
    """Names of changes with which the model reads more numbers: its loops end by themselves, and
    later.  Neither model nor inputs are changed.
    """
    found: dict[str, int] = {}

    def answer(given: list[Any]) -> tuple[list[torch.Tensor], int]:
        with Readings() as readings:
            made = call(model, copy.deepcopy(given))
        return [x for x in layout.values(made) if input_changes.is_float(x)], readings.count

    with TimeLimit(LONGER_S):
        usual, least = answer(inputs)
        for name, change in CHANGES.items():
            given = applied(change, inputs)
            try:
                here, count = answer(given)
                if count < LONGER * least:
                    continue
                nearby, _ = answer(input_domain.with_roundings(given))
            except TimeoutError:  # nothing more can be tried
                break
            except Exception:  # noqa: BLE001, S112 (the problem's code may raise anything for such inputs)
                continue
            if usual and iterated_inputs.are_well_behaved(usual, here, nearby):
                found[name] = count
    return tuple(sorted(found, key=found.__getitem__, reverse=True)[:MOST_KEPT])


def _lost_on(
    answer: Answer, model: Any, given: list[Any], usual: list[torch.Tensor]
) -> tuple[float, ...]:
    """Changes of the answer to these inputs by fewer steps, for each of FEWER; none if the fewest
    suffice, or the inputs are outside the domain.
    """
    try:
        here = answer(given)
        if _lost(answer, model, given, here, FEWER[-1]) <= TELLS:
            return ()
        nearby = answer(input_domain.with_roundings(given))
        if not iterated_inputs.are_well_behaved(usual, here, nearby):
            return ()
        return tuple(_lost(answer, model, given, here, divisor) for divisor in FEWER)
    except TimeoutError:
        raise
    except Exception:  # noqa: BLE001 (as above, for inputs outside its domain)
        return ()


def _lost(
    answer: Answer, model: Any, given: list[Any], full: list[torch.Tensor], divisor: int
) -> float:
    """Change of the answer by fewer steps, in relative L2."""
    with fewer_steps(model, divisor):
        early = answer(given)
    return _difference(early, full)


def _difference(early: list[torch.Tensor], full: list[torch.Tensor]) -> float:
    """Largest difference of two answers, in relative L2."""
    return max(
        errors(computable(one.detach()), computable(other.detach()))[0]
        for one, other in zip(early, full, strict=True)
    )


def applied(change: Change, inputs: list[Any]) -> list[Any]:
    """The inputs with a change to each tensor of floats that keeps its structure; the same list if
    none does.
    """

    def fitting(x: Any) -> Any:
        if not input_changes.is_float(x):
            return x
        changed = change(x)
        return changed if input_domain.keeps_structure(x, changed, bounds=False) else x

    leaves = list(layout.values(inputs))
    made = input_changes.changed(inputs, range(len(leaves)), fitting)
    unchanged = all(a is b for a, b in zip(layout.values(made), leaves, strict=True))
    return inputs if unchanged else made


def drawn(names: tuple[str, ...], inputs: list[Any]) -> list[Any]:
    """The inputs with one of the named changes, in all matrices of a batch or in the same ones of
    all tensors: half of them, or a few; draws from torch's seeded generator.
    """
    change = CHANGES[names[int(torch.randint(len(names), ()))]]
    if bool(torch.rand(()) > IN_PART):
        return applied(change, inputs)
    are_few = bool(torch.rand(()) < FEW_OF_THESE)
    state = torch.get_rng_state()

    def in_some(x: torch.Tensor) -> torch.Tensor:
        torch.set_rng_state(state)
        if x.dim() < 3:
            return change(x)
        return local_changes.in_few_rows(x, change, whole=2) if are_few else _in_half(x, change)

    return applied(in_some, inputs)


def _in_half(x: torch.Tensor, change: Change) -> torch.Tensor:
    """A batch with half of its matrices changed."""
    along = next((dim for dim, size in enumerate(x.shape[:-2]) if size > 1), None)
    if along is None:
        return change(x)
    size = x.shape[along]
    chosen = torch.randperm(size)[: size // 2].to(x.device)
    return x.index_copy(along, chosen, change(x.index_select(along, chosen)))


def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return factor * x


def _coupled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Square matrices with the elements beside the diagonal scaled; rows of others alike."""
    if x.dim() < 2 or input_domain.is_whole(x):
        return x
    if x.shape[-1] != x.shape[-2]:
        return SHARED * x[..., :1, :] + (1 - SHARED) * x
    changed = factor * x
    changed.diagonal(dim1=-2, dim2=-1).copy_(x.diagonal(dim1=-2, dim2=-1))
    return changed


def _close(x: torch.Tensor, powers: float) -> torch.Tensor:
    """Nearly diagonal matrices with the largest singular value of the tensor's, and diagonals over
    some powers of two.
    """
    if x.dim() < 2 or min(x.shape[-2:]) < iterated_inputs.LEAST_ORDER:
        return x
    largest = _largest_singular_value(x)
    exponents = -powers * torch.rand((*x.shape[:-2], min(x.shape[-2:])), device=x.device)
    exponents[..., 0] = 0
    scale = largest / x.abs().amax(dim=(-2, -1), keepdim=True)
    changed = x * scale * (iterated_inputs.OFF_DIAGONAL / max(x.shape[-2:]))
    changed.diagonal(dim1=-2, dim2=-1).copy_(largest[..., 0] * torch.exp2(exponents))
    return changed


def _largest_singular_value(x: torch.Tensor) -> torch.Tensor:
    """That of each matrix, (…, 1, 1), by a few steps of power iteration."""
    vector = torch.ones_like(x[..., :1, :].mT)
    for _ in range(4):
        vector = torch.nn.functional.normalize(x.mT @ (x @ vector), dim=-2)
    found: torch.Tensor = torch.linalg.vector_norm(x @ vector, dim=-2, keepdim=True)
    return found


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """Each column in an order of its own."""
    if x.dim() < 2 or input_domain.is_whole(x):
        return x
    return x.gather(-2, torch.rand(x.shape, device=x.device).argsort(dim=-2))


def _alike(x: torch.Tensor) -> torch.Tensor:
    """Columns that differ little."""
    if x.dim() < 2 or input_domain.is_whole(x):
        return x
    return SHARED * x[..., :1] + (1 - SHARED) * x


CHANGES: Mapping[str, Change] = {
    "close 1": functools.partial(_close, powers=1.0),
    "coupled 8": functools.partial(_coupled, factor=8.0),
    "far 128": functools.partial(_scaled, factor=128.0),
    "far 64": functools.partial(_scaled, factor=64.0),
    "mixed": _mixed,
    "coupled 6": functools.partial(_coupled, factor=6.0),
    "far 32": functools.partial(_scaled, factor=32.0),
    "alike": _alike,
    "close 8": functools.partial(_close, powers=8.0),
    "coupled 4": functools.partial(_coupled, factor=4.0),
    "coupled 2": functools.partial(_coupled, factor=2.0),
    "near": functools.partial(_scaled, factor=1 / 128),
}
"""Changes that are tried, by name and in this order."""
