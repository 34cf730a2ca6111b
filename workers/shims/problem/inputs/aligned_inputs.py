"""Rows and patches of an input in the order of a layer's weights.

On random inputs the results of a layer are alike: none lies far from the others, and operators
behind it (a clamp after a norm, a choice of experts or classes) always do the same.  Where the
largest elements of a row stand where a row of the weights has its largest ones, one result lies as
many standard deviations away as the square root of the row's length.  The elements are the
problem's own, in another order, and so stay in the problem's domain.  A patch is to a convolution
what a row is to a matrix.

This does not reach layers behind other layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from workers.shims.problem.inputs import input_domain

SHARE = 1 / 8
"""Share of the rows that are put in order, one at least."""

MOST_PATCHES = 16
"""Samples of which one patch is put in order."""

LEAST_LENGTH = 8
"""Elements of a row or a patch below which an order makes no result large."""

MOST_WEIGHTS = 4
"""Weights of a model that are considered for an input."""


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """The model's matrices and filters, by name."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {
        name: each.detach()
        for name, each in model.named_parameters()
        if each.dim() > 1 and len(each) > 1 and each.is_floating_point() and each.itemsize > 1
    }


def fitting(x: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
    """Names of the weights that may be multiplied by the tensor's rows, or by patches of it."""
    found = [
        name
        for name, each in weights.items()
        if each[0].numel() >= LEAST_LENGTH and (_is_matrix_for(each, x) or _is_filter_for(each, x))
    ]
    return tuple(found[:MOST_WEIGHTS])


def aligned(x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """The tensor with some rows, or a patch of some samples, put into the order of a row of these
    weights or into the reverse one, if it keeps its structure.
    """
    ordered = x.clone(memory_format=torch.contiguous_format)
    for each in weights:
        if _is_matrix_for(each, x):
            _align_rows(ordered, each)
        else:
            _align_patches(ordered, each)
    changed = x.clone().copy_(ordered)  # with the strides of x
    return changed if input_domain.keeps_structure(x, changed) else x


def _is_matrix_for(weight: torch.Tensor, x: torch.Tensor) -> bool:
    return weight.dim() == 2 <= x.dim() and weight.shape[1] == x.shape[-1]


def _is_filter_for(weight: torch.Tensor, x: torch.Tensor) -> bool:
    if not 3 <= weight.dim() == x.dim() or weight.shape[1] != x.shape[1]:
        return False
    return all(size <= most for size, most in zip(weight.shape[2:], x.shape[2:], strict=True))


def _align_rows(x: torch.Tensor, weight: torch.Tensor) -> None:
    rows = x.view(-1, x.shape[-1])
    chosen = torch.rand(len(rows), device=x.device) < SHARE
    chosen[torch.randint(len(rows), (), device=x.device)] = True
    rows[chosen] = _in_order(rows[chosen], weight)


def _align_patches(x: torch.Tensor, weight: torch.Tensor) -> None:
    for sample in torch.randperm(len(x))[:MOST_PATCHES].tolist():
        patch = x[sample]
        for dim, size in enumerate(weight.shape[2:], 1):
            first = int(torch.randint(patch.shape[dim] - size + 1, ()))
            patch = patch.narrow(dim, first, size)
        patch.copy_(_in_order(patch.reshape(1, -1), weight.flatten(1)).view(patch.shape))


def _in_order(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row in the order of a random row of a matrix, or in the reverse one."""
    some = torch.randint(len(weight), (len(rows),), device=rows.device)
    sign = torch.where(torch.rand(len(rows), 1, device=rows.device) < 0.5, -1.0, 1.0)
    places = (sign * weight[some].float()).argsort(dim=-1).argsort(dim=-1)
    return rows.sort(dim=-1).values.gather(-1, places)
