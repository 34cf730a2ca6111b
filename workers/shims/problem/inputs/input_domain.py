"""Test whether changed inputs (workers/protocol/input_variants.py) are in
a problem's domain.

The structure of the problem's own inputs must be preserved: edges stay sorted, a covariance
positive definite, a rotation orthogonal, a probability normalised.  And the reference must be well
conditioned on the changed inputs: rounding them, and choosing otherwise among equal values, must
not change its answer by more than a few times the rounding, or by more than the same with the
problem's own inputs does.

This does not recognise a domain that depends on several tensors (an index limited by another
tensor's values).  There the reference fails, or its answer is not finite, vanishes or explodes
(workers/referee/comparison/usual_answers.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch

from workers.protocol import layout
from workers.protocol.roundoff import are_integers, computable, errors, is_inexact, unit
from workers.shims.problem.answers.true_answer import nominal
from workers.shims.problem.inputs.broken_ties import BrokenTies

AMPLIFIES = 4.0
"""Largest change of an answer, in multiples of the change of its inputs, or of that of the
answer to the problem's own inputs.
"""

BREAKS = 4
"""Times that ties are broken, if there are any: one may move an answer little by chance."""

QUIET = 2e-3
"""Change of an answer that is always allowed, in relative L2: a tenth of GROSS_L2, the limit
for answers to changed inputs.
"""

BOUND_REACHED = 0.95

SIZES = 16
"""Numbers of a tensor that are looked for among the sizes of another's."""

LARGEST_MATRIX = 2048
"""Most rows of a matrix that is factorised, or multiplied by itself, to test it."""

LOOKED_AT = 1 << 24
"""Elements of a tensor for which the structure is checked."""

Trait = Callable[[torch.Tensor], torch.Tensor]
"""Test of a tensor; its answer is a boolean tensor without dimensions, so that the answers of
several tests are read at once: each reading waits for the device's other processes.
"""


def is_sorted(x: torch.Tensor) -> bool:
    """Test whether every row ascends, or every row descends."""
    return bool(_is_sorted(x))


def are_normed(x: torch.Tensor) -> bool:
    """Test whether rows sum to one or have unit length."""
    return any(_answers(x, (_are_shares, _has_unit_rows)))


def has_order(x: torch.Tensor) -> bool:
    """Test for sorted rows, and for rows of equal halves or pairs."""
    return any(_answers(_rows(x), (_is_sorted, _has_equal_halves, _has_equal_pairs)))


def is_whole(x: torch.Tensor) -> bool:
    """Test whether all values are whole numbers, as in a mask."""
    return bool(_is_whole(x))


def is_bounded(x: torch.Tensor) -> bool:
    """Test whether values lie between −1 and 1 and come close to a bound, like
    cosines or uniform random numbers.
    """
    return bool(bounded(x))


def _answers(x: torch.Tensor, traits: Sequence[Trait]) -> list[bool]:
    """Answers of some tests of a tensor, read at once."""
    found: list[bool] = torch.stack([trait(x) for trait in traits]).tolist() if traits else []
    return found


def _no(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=torch.bool, device=x.device)


def _is_sorted(x: torch.Tensor) -> torch.Tensor:
    if not x.dim() or x.shape[-1] < 4:
        return _no(x)
    steps = x[..., 1:] - x[..., :-1]
    ascends, descends = (steps >= 0).all(), (steps <= 0).all()
    return (ascends | descends) & (steps != 0).any()


def _is_square(x: torch.Tensor) -> bool:
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] > 1


def _is_symmetric(x: torch.Tensor) -> torch.Tensor:
    return ((x - x.mT).abs() <= 1e-5 * x.abs().amax()).all()


def _is_positive_definite(x: torch.Tensor) -> torch.Tensor:
    if x.shape[-1] > LARGEST_MATRIX or not bool(_is_symmetric(x)):
        return _no(x)
    failed: torch.Tensor = torch.linalg.cholesky_ex(x.double()).info
    return ~failed.any()


def _is_lower(x: torch.Tensor) -> torch.Tensor:
    return ~x.triu(1).any()


def _is_upper(x: torch.Tensor) -> torch.Tensor:
    return ~x.tril(-1).any()


def _is_orthogonal(x: torch.Tensor) -> torch.Tensor:
    if x.shape[-1] > LARGEST_MATRIX:
        return _no(x)
    wide = x.double()
    unit_matrix = torch.eye(x.shape[-1], dtype=wide.dtype, device=x.device)
    return ((wide.mT @ wide - unit_matrix).abs() < 1e-2).all()


def _are_shares(x: torch.Tensor) -> torch.Tensor:
    if not x.dim() or x.shape[-1] < 2:
        return _no(x)
    return (x >= 0).all() & ((x.double().sum(-1) - 1).abs() < 1e-2).all()


def _has_unit_rows(x: torch.Tensor) -> torch.Tensor:
    if not x.dim() or x.shape[-1] < 2:
        return _no(x)
    lengths: torch.Tensor = torch.linalg.vector_norm(x.double(), dim=-1)
    return ((lengths - 1).abs() < 1e-2).all()


def _is_not_negative(x: torch.Tensor) -> torch.Tensor:
    return (x >= 0).all()


def _is_not_positive(x: torch.Tensor) -> torch.Tensor:
    return (x <= 0).all()


def _has_equal_halves(x: torch.Tensor) -> torch.Tensor:
    """Test whether the second half of every row repeats the first, as in cosines of rotary
    embeddings, of which kernels read one half.
    """
    half, rest = divmod(x.shape[-1] if x.dim() else 0, 2)
    if not half or rest:
        return _no(x)
    return (x[..., :half] == x[..., half:]).all() & (x != x.flatten()[0]).any()


def _has_equal_pairs(x: torch.Tensor) -> torch.Tensor:
    """Test whether every second element repeats the one before: the interleaved form
    of `_has_equal_halves`.
    """
    if not x.dim() or x.shape[-1] < 2 or x.shape[-1] % 2:
        return _no(x)
    return (x[..., ::2] == x[..., 1::2]).all() & (x != x.flatten()[0]).any()


def _is_whole(x: torch.Tensor) -> torch.Tensor:
    return (x == x.round()).all()


def are_sizes_of(x: torch.Tensor, other: torch.Tensor) -> bool:
    """Test whether the numbers of `x` are sizes (absolute values) of some numbers of `other`, a
    larger tensor of the same type: the maxima that scales are made of.  By the first numbers of
    `x`; of a type of 16 bits equal ones are no sign.
    """
    if x.dtype != other.dtype or x.itemsize < 4 or not 1 < x.numel() < other.numel():
        return False
    first, sizes = x.reshape(-1)[:SIZES], other.abs()
    return bool((first > 0).any()) and all(bool((sizes == number).any()) for number in first)


def bounded(x: torch.Tensor) -> torch.Tensor:
    """The answer of `is_bounded`, not read yet."""
    largest = x.abs().amax()
    return (largest > BOUND_REACHED) & (largest <= 1)


OF_ROWS: tuple[Trait, ...] = (
    _is_sorted,
    _are_shares,
    _has_unit_rows,
    _is_not_negative,
    _is_not_positive,
    _has_equal_halves,
    _has_equal_pairs,
    _is_whole,
    bounded,
)
OF_MATRICES: tuple[Trait, ...] = (
    _is_symmetric,
    _is_positive_definite,
    _is_lower,
    _is_upper,
    _is_orthogonal,
)
"""Traits that a change must preserve.  Zeros among positive numbers are allowed: a kernel must not
divide by them if the reference does not, and if the reference does, its answer is not finite.
"""


OF_SIGNS = (_is_not_negative, _is_not_positive)


def _has_filled_zeros(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Test for other numbers where the zeros of every slice along a dimension before the last have
    the same places: a triangle or a band in any layout, padding, columns that are not used.  Zeros
    of a ReLU or of a mask by rows have others, and masks may be changed.
    """
    zeros = before == 0
    same = _no(before)
    for dimension, size in enumerate(before.shape[:-1]):
        if size > 1:
            same = same | (zeros == zeros.narrow(dimension, 0, 1)).all()
    return same & ~_is_whole(before) & (zeros & (after != 0)).any()


def keeps_structure(
    before: torch.Tensor, after: torch.Tensor, *, signs: bool = True, bounds: bool = True
) -> bool:
    """Test whether a changed tensor has all traits of the original; `signs`: also those of its
    sign; `bounds`: also that of lying between −1 and 1, which masks have in any case.  Zeros that
    every slice has at the same places stay zeros, except in masks.
    """
    mine, theirs = _rows(before), _rows(after)
    of_mine = dict(zip(OF_ROWS, _answers(mine, OF_ROWS), strict=True))
    if not bounds and of_mine[bounded] and of_mine[_is_whole]:
        return False  # a mask
    left_out = {*(() if signs else OF_SIGNS), *(() if bounds else (bounded,))}
    kept = [trait for trait, holds in of_mine.items() if holds and trait not in left_out]
    if not all(_answers(theirs, kept)) or bool(_has_filled_zeros(mine, theirs)):
        return False
    one, other = _matrices(before), _matrices(after)
    if not _is_square(one):
        return True
    of_one = zip(OF_MATRICES, _answers(one, OF_MATRICES), strict=True)
    return all(_answers(other, [trait for trait, holds in of_one if holds]))


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension; of a large tensor the first ones, because the
    tests copy them in fp64.
    """
    if x.dim() and x.numel() > LOOKED_AT:
        x = x.reshape(-1, x.shape[-1])[: max(1, LOOKED_AT // x.shape[-1])]
    return computable(x)


def _matrices(x: torch.Tensor) -> torch.Tensor:
    """The matrices of a tensor, the first of a large one."""
    while x.dim() > 2 and x.numel() > LOOKED_AT:
        x = x[0]
    return computable(x)


class Moved(NamedTuple):
    """Changes in relative L2 if the inputs of a call are rounded, and ties are broken at random."""

    inputs: float = 0.0
    answer: float = 0.0
    may_choose: bool = True
    """False if calls of the reference choose among no values (BrokenTies.may_choose)."""


def moved(
    call: Callable[[list[Any]], Any],
    inputs: list[Any],
    answer: Any,
    *,
    places: bool = False,
    may_choose: bool = True,
) -> Moved:
    """Changes of inputs and answer if the inputs are rounded, and ties are broken at random.

    `call(inputs)`: the answer to widened inputs; `inputs`: widened copies with their
    nominal types (true_answer.py), which the call may change; `answer`: the
    answer to the unchanged inputs; `places`: an integer of the answer that changes, as the place of
    one of several equal values does, counts as an infinite change; `may_choose`: see Moved.
    """
    sizes = [
        unit(nominal(x))
        for x in layout.values(inputs)
        if isinstance(x, torch.Tensor) and is_inexact(x.dtype)
    ]
    if not sizes:
        return Moved()
    far, ties = [0.0], BrokenTies()
    for _ in range(BREAKS):
        given = with_roundings(inputs)
        with BrokenTies() if may_choose else nullcontext(ties) as ties:
            after = call(given)
        far.append(_change(after, answer, places=places))
        if not ties.were_met:
            break
    return Moved(max(sizes), max(far), ties.may_choose)


def _change(after: Any, answer: Any, *, places: bool) -> float:
    """Largest change of an answer's parts, as `moved` measures it."""
    pairs = list(zip(layout.values(after), layout.values(answer), strict=True))
    if places and not all(layout.same(*pair) for pair in pairs if are_integers(pair[0])):
        return math.inf
    far = [
        errors(*each)[0]
        for each in pairs
        if isinstance(each[0], torch.Tensor) and is_inexact(each[0].dtype)
    ]
    return max(far, default=0.0)


def with_roundings(value: Any) -> Any:
    """The value with random errors of half a rounding on average; tensors of
    integers are unchanged.
    """
    return layout.mapped(_with_roundings, value)


def _with_roundings(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    x = computable(value)
    if not x.is_floating_point() or not x.numel() or is_whole(x):
        return value.clone()
    jittered = (x * (1 + unit(nominal(value)) * (2 * torch.rand_like(x) - 1))).to(value.dtype)
    jittered._nominal = nominal(value)  # type: ignore[attr-defined]
    return jittered


def objection(here: Moved, usual: Moved) -> str:
    """Reason why changed inputs are outside the domain; "" if they are inside.

    `here`, `usual`: results of `moved` for the changed inputs and for the problem's own."""
    inputs, answer, own = here.inputs, here.answer, usual.answer
    if answer <= max(QUIET, AMPLIFIES * max(inputs, own)):
        return ""
    return (
        f"roundings of {inputs:.1e} move the answer by {answer:.1e}, on the problem's own inputs by"
        f" {own:.1e}"
    )
