"""Constant parameters: those that are all ones, all zeros or a unit matrix when a model is constructed.

Examples are a norm's weight and bias, the gate of a branch that is closed at first, and a recurrence that keeps its
state at first; also the running statistics of a norm, a layer that starts as a copy of another or as its transpose, a
matrix with orthonormal rows or columns, and the lengths of the rows of another (weight normalisation).  A candidate
that omits them is right until the model is trained.  Determined in the reference's process, once for each problem.

Other buffers and frozen parameters of two values (a mask) are part of the problem: a kernel may have them built in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch

MOST = 32
"""Most names: each takes two bits in a candidate's answer (control_channel.ABSENT_BIT)."""

SMALL = 1e-2
"""Largest value of a single-element parameter that counts as constant: it suppresses the term that it scales.  A larger
one may be a temperature."""

STATISTICS = ("running_mean", "running_var")
"""Names of buffers that training changes."""

ROWS_LOOKED_AT, ORTHONORMAL = 64, 1e-2
"""Rows of a matrix that are tested for being orthonormal, and how far their products may be off."""

LEAST_OF_TWO = 9
"""Least number of elements of a parameter with two values that counts as constant: a unit matrix of three rows."""


def of(model: Any, ignored: Collection[str] = ()) -> tuple[str, ...]:
    """Names of constant parameters: floating-point parameters and statistics of norms with elements that are all equal
    or have two values, and parameters that follow from earlier ones or are orthonormal.  At most MOST names.

    `ignored`: names of values that the model does not read."""
    if not isinstance(model, torch.nn.Module):
        return ()
    found = {
        name: value.detach().reshape(-1)
        for name, value in [*model.named_parameters(), *_statistics(model)]
        if value.is_floating_point() and value.element_size() > 1 and value.numel()
    }
    if not found:
        return ()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    equal = torch.stack([_is_constant(flat, name in frozen) for name, flat in found.items()]).tolist()
    constant = {name for name, each in zip(found, equal, strict=True) if each}
    others = {name: parameter for name, parameter in model.named_parameters() if name in found.keys() - constant}
    names = dict.fromkeys((*(name for name in found if name in constant), *_copies(others), *_related(others, frozen)))
    return tuple([name for name in names if name not in ignored][:MOST])


def _copies(parameters: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Names of the parameters that equal an earlier one."""
    if not parameters:
        return
    sums = torch.stack([each.detach().sum(dtype=torch.float64) for each in parameters.values()]).tolist()
    seen: dict[tuple[object, ...], list[torch.Tensor]] = {}
    for total, (name, parameter) in zip(sums, parameters.items(), strict=True):
        alike = seen.setdefault((total, parameter.shape, parameter.dtype), [])
        if any(torch.equal(parameter, each) for each in alike):
            yield name
        else:
            alike.append(parameter)


def _related(parameters: Mapping[str, torch.Tensor], frozen: Collection[str]) -> Iterator[str]:
    """Names of matrices that are the transpose of an earlier one or, if they are not frozen, have orthonormal rows or
    columns, and of parameters that are the lengths of another's rows."""
    matrices = {name: each.detach().flatten(1) for name, each in parameters.items() if each.dim() > 1}
    earlier: list[torch.Tensor] = []
    for name, matrix in matrices.items():
        is_transpose = any(matrix.shape == each.T.shape and torch.equal(matrix, each.T) for each in earlier)
        if is_transpose or (name not in frozen and _is_orthonormal(matrix)):
            yield name
        earlier.append(matrix)
    for name, parameter in parameters.items():
        flat = parameter.detach().flatten()
        of_rows = (each for each in matrices.values() if len(each) == len(flat) and len(flat) > 1 < each.shape[1])
        if any(torch.allclose(flat.float(), each.float().norm(dim=1), rtol=1e-4, atol=0) for each in of_rows):
            yield name


def _is_orthonormal(matrix: torch.Tensor) -> bool:
    """Test the first rows, or columns if there are fewer of those, up to a common factor."""
    some = (matrix if len(matrix) <= matrix.shape[1] else matrix.T)[:ROWS_LOOKED_AT].float()
    if len(some) < 3:
        return False
    products = some @ some.T
    scale = products.diagonal().mean()
    unit = torch.eye(len(some), device=some.device)
    return bool(scale > 0) and bool(((products / scale - unit).abs() < ORTHONORMAL).all())


def _statistics(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Running statistics of norms in eval mode; in train mode a norm uses those of its input."""
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name in STATISTICS and not module.training:
                yield f"{prefix}.{name}".lstrip("."), buffer


def _is_constant(flat: torch.Tensor, frozen: bool) -> torch.Tensor:
    if len(flat) == 1:
        return flat[0].abs() <= SMALL
    least, most = flat.min(), flat.max()
    several = len(flat) >= LEAST_OF_TWO and not frozen
    of_two = ((flat == least) | (flat == most)).all() if several else least == most
    return of_two & torch.isfinite(least) & torch.isfinite(most)
