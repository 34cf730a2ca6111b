"""Constant parameters: those that are all ones, all zeros, a unit matrix or a single number when a
model is constructed.

Examples are a norm's weight and bias, the gate of a branch that is closed at first, and a
recurrence that keeps its state at first; also the running statistics of a norm, a layer that starts
as a copy of another or as its transpose, a matrix with orthonormal or repeated rows or columns,
weights that are all faint, the lengths of the rows of another (weight normalisation), and numbers
at regular steps, symmetric matrices, bands and triangles (regular_weights.py).  A candidate that
omits them, or computes them from fewer numbers, is right until the model is trained.  Determined in
the reference's process, once for each problem.

A buffer that a checkpoint holds counts if all of its elements are zero, or if it has a factor of
one for each channel: it has no effect until other values are loaded (a frozen norm, a bias by
position).  A single zero counts if the model multiplies by one (closed_gates.py).  Other buffers
and frozen parameters of two values (a mask) are part of the problem: a kernel may have them built
in.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch.nn.modules.batchnorm import _NormBase

from workers.protocol.problem_spec import MAX_CONSTANTS, SMALL_CONSTANT
from workers.shims.problem import regular_weights

FAINT_VECTOR = 1e-4
"""SMALL_CONSTANT of a vector, such as a bias, which torch initialises by the number of inputs."""

STATISTICS = ("running_mean", "running_var")
"""Names of buffers that training changes."""

LOOKED_AT, ORTHONORMAL = 64, 0.1
"""Rows of a matrix that are tested for being orthonormal, and elements for being repeated; and how
far products of orthonormal rows may be off, divided by the square root of their length: those of
random rows are off by ten times as much.
"""

ROUNDED = 1e-4
"""Relative error of a length."""

LEAST_OF_TWO = 9
"""Least number of elements of a parameter with two values that counts as constant: a
unit matrix of three rows.
"""

LEAST_OF_ONES = 9
"""Least number of elements of a buffer of ones that counts as constant: fewer may be a filter."""


class Uses(NamedTuple):
    """Uses of weights that a call does not show."""

    recurrent: Mapping[str, int | None] = MappingProxyType({})
    """Matrices that every step of an iteration uses, with the row or column from which on they take
    a state, and the parameters that set how much of a state a step keeps.
    """
    has_gates: bool = False
    """True if the model multiplies by a single zero."""
    on_weights: tuple[str, ...] = ()
    """Names of the parameters on which much work is done without the inputs, and of those on which
    operators miss a limit, vanish or change nothing.
    """


NO_USES = Uses()


def of(model: Any, ignored: Collection[str] = (), uses: Uses = NO_USES) -> tuple[str, ...]:
    """Names of constant parameters: floating-point parameters and statistics of norms with elements
    that are all equal or have two values, buffers without effect, and parameters that follow from
    earlier ones or are orthonormal.  At most MAX_CONSTANTS names.

    `ignored`: names of values that the model does not read; `uses`: all names in it are added.
    """
    if not isinstance(model, torch.nn.Module):
        return ()
    found = {
        name: value.detach()
        for name, value in [*model.named_parameters(), *_buffers(model, has_gates=uses.has_gates)]
        if value.is_floating_point() and value.element_size() > 1 and value.numel()
    }
    if not found:
        return ()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    equal = torch.stack(
        [_is_constant(flat, name in frozen) for name, flat in found.items()]
    ).tolist()
    constant = {name for name, each in zip(found, equal, strict=True) if each}
    others = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name in found.keys() - constant
    }
    trained = {name: each.detach() for name, each in others.items() if name not in frozen}
    may_be = _read([regular_weights.may_be_regular(each) for each in trained.values()])
    regular = (
        name
        for (name, each), may in zip(trained.items(), may_be, strict=True)
        if may and regular_weights.is_regular(each)
    )
    follow = (*_copies(others), *_related(others, frozen), *regular)
    shown = (*(name for name in found if name in constant), *follow)
    names = dict.fromkeys((*shown, *uses.recurrent, *uses.on_weights))
    return tuple([name for name in names if name not in ignored][:MAX_CONSTANTS])


def _copies(parameters: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Names of the parameters that equal an earlier one."""
    if not parameters:
        return
    sums = torch.stack(
        [each.detach().sum(dtype=torch.float64) for each in parameters.values()]
    ).tolist()
    seen: dict[tuple[object, ...], list[torch.Tensor]] = {}
    for total, (name, parameter) in zip(sums, parameters.items(), strict=True):
        alike = seen.setdefault((total, parameter.shape, parameter.dtype), [])
        if any(torch.equal(parameter, each) for each in alike):
            yield name
        else:
            alike.append(parameter)


def _related(parameters: Mapping[str, torch.Tensor], frozen: Collection[str]) -> Iterator[str]:
    """Names of matrices that are the transpose of an earlier one or, if they are not
    frozen, have orthonormal or repeated rows or columns, and of parameters that are
    the lengths of another's rows.
    """
    matrices = {
        name: each.detach().flatten(1) for name, each in parameters.items() if each.dim() > 1
    }
    if not matrices:
        return
    yield from _transposed(matrices)
    trained = {name: matrix for name, matrix in matrices.items() if name not in frozen}
    may_be = _read([_may_be_related(matrix) for matrix in trained.values()])
    for (name, matrix), may in zip(trained.items(), may_be, strict=True):
        if may and (_is_orthonormal(matrix) or _is_repeated(matrix)):
            yield name
    yield from _lengths_of_rows(parameters, matrices)


def _transposed(matrices: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Names of the transposes of earlier matrices; corners tell which are compared as a whole."""
    at = (0, -1)
    corners = torch.stack(
        [torch.stack([each[i, j].double() for i in at for j in at]) for each in matrices.values()]
    )
    seen: dict[tuple[object, ...], list[torch.Tensor]] = {}
    for (name, matrix), (first, right, left, last) in zip(
        matrices.items(), corners.tolist(), strict=True
    ):
        earlier = seen.get((*matrix.T.shape, first, left, right, last), [])
        if any(torch.equal(matrix, each.T) for each in earlier):
            yield name
        seen.setdefault((*matrix.shape, first, right, left, last), []).append(matrix)


def _lengths_of_rows(
    parameters: Mapping[str, torch.Tensor], matrices: Mapping[str, torch.Tensor]
) -> Iterator[str]:
    """Names of the parameters that are the lengths of a matrix's rows; the first of
    each tells which are compared.
    """
    values = [each.detach().flatten() for each in parameters.values()]
    firsts = torch.stack([each[0].double() for each in values]).tolist()
    lengths = torch.stack([each[0].double().norm() for each in matrices.values()]).tolist()
    for name, flat, first in zip(parameters, values, firsts, strict=True):
        alike = (
            each
            for each, length in zip(matrices.values(), lengths, strict=True)
            if len(each) == len(flat)
            and len(flat) > 1 < each.shape[1]
            and math.isclose(first, length, rel_tol=ROUNDED)
        )
        if any(
            torch.allclose(flat.float(), each.float().norm(dim=1), rtol=ROUNDED, atol=0)
            for each in alike
        ):
            yield name


def _read(flags: list[torch.Tensor]) -> list[bool]:
    """Flags of all parameters, in one wait for the device."""
    found: list[bool] = torch.stack(flags).tolist() if flags else []
    return found


def _may_be_related(matrix: torch.Tensor) -> torch.Tensor:
    """The answer, not read yet, of a test of three rows for being orthonormal, and of the first
    elements for being repeated.
    """
    found = torch.zeros((), dtype=torch.bool, device=matrix.device)
    some = _first_rows(matrix)
    if len(some) > 2:
        found = found | _are_orthonormal(some[:3].float())
    for rows in (matrix, matrix.T):
        if len(rows) > 1 < rows.shape[1]:
            found = found | (rows[1:, 0] == rows[0, 0]).any()
    return found


def _is_orthonormal(matrix: torch.Tensor) -> bool:
    """Test the first rows up to a common factor."""
    some = _first_rows(matrix)
    return len(some) > 2 and bool(_are_orthonormal(some.float()))


def _first_rows(matrix: torch.Tensor) -> torch.Tensor:
    """The first rows, or columns if there are fewer of those."""
    return (matrix if len(matrix) <= matrix.shape[1] else matrix.T)[:LOOKED_AT]


def _are_orthonormal(rows: torch.Tensor) -> torch.Tensor:
    products = rows @ rows.T
    scale = products.diagonal().mean()
    unit = torch.eye(len(rows), device=rows.device)
    off = (products - scale * unit).abs()
    found: torch.Tensor = (off < ORTHONORMAL * rows.shape[1] ** -0.5 * scale).all()
    return found


def _is_repeated(matrix: torch.Tensor) -> bool:
    """Test whether the first row or column begins as another."""
    return any(_repeats_first(each) for each in (matrix, matrix.T) if len(each) > 1 < each.shape[1])


def _repeats_first(rows: torch.Tensor) -> bool:
    return bool((rows[1:, :LOOKED_AT] == rows[:1, :LOOKED_AT]).all(dim=1).any())


def _buffers(model: torch.nn.Module, *, has_gates: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Running statistics of norms in eval mode (in train mode a norm uses those of its input), and
    the other buffers of checkpoints that have no effect.
    """
    found: list[tuple[str, torch.Tensor]] = []
    flags: dict[int, torch.Tensor] = {}
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            is_saved = name not in module._non_persistent_buffers_set
            if name in STATISTICS and isinstance(module, _NormBase):
                is_wanted = not module.training
            elif is_wanted := is_saved and _is_looked_at(buffer, 1 if has_gates else 2):
                flags[len(found)] = _has_no_effect(buffer)
            found += [(f"{prefix}.{name}".lstrip("."), buffer)] if is_wanted else []
    have_effects = dict(zip(flags, _read([~each for each in flags.values()]), strict=True))
    yield from (each for at, each in enumerate(found) if not have_effects.get(at))


def _is_looked_at(buffer: torch.Tensor, least: int) -> bool:
    """Test for numbers of a common type, `least` elements or more."""
    return buffer.is_floating_point() and buffer.element_size() > 1 and buffer.numel() >= least


def _has_no_effect(buffer: torch.Tensor) -> torch.Tensor:
    """The answer, not read yet, of a test for zeros, and for factors of one along a single
    dimension.
    """
    are_zeros = (buffer == 0).all()
    is_vector = buffer.numel() == max(buffer.shape, default=1) >= LEAST_OF_ONES
    return are_zeros | (buffer == 1).all() if is_vector else are_zeros


def _is_constant(value: torch.Tensor, frozen: bool) -> torch.Tensor:
    flat = value.reshape(-1)
    if len(flat) == 1:  # a factor or a temperature, unless it is frozen
        return torch.isfinite(flat[0]) & ((flat[0].abs() <= SMALL_CONSTANT) | (not frozen))
    least, most = flat.min(), flat.max()
    several = len(flat) >= LEAST_OF_TWO and not frozen
    of_two = ((flat == least) | (flat == most)).all() if several else least == most
    small = SMALL_CONSTANT * value[0].numel() ** -0.5 if value.dim() > 1 else FAINT_VECTOR
    faint = (least >= -small) & (most <= small) & (not frozen)
    return (of_two | faint) & torch.isfinite(least) & torch.isfinite(most)
