"""Weights that do not show: parameters that are all ones, or all zeros, when a model is constructed.

A norm's weight and bias are, and a candidate that leaves them out gives the right answer until somebody trains the
model.  Asked in the reference's own process, once for each problem."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

MOST = 64
"""Names that are given: a bit each in a candidate's answer (wire.Command.ARENA)."""


def of(model: Any, ignored: Collection[str] = ()) -> tuple[str, ...]:
    """Names of the floating-point parameters of two elements or more that are all equal; the first of them.

    `ignored`: names of what the model does not look at anyway."""
    if not isinstance(model, torch.nn.Module):
        return ()
    found = {
        name: parameter.detach().reshape(-1)
        for name, parameter in model.named_parameters()
        if parameter.is_floating_point() and parameter.element_size() > 1 and parameter.numel() > 1
    }
    if not found:
        return ()
    equal = torch.stack([(flat == flat[0]).all() & torch.isfinite(flat[0]) for flat in found.values()]).tolist()
    names = [name for name, constant in zip(found, equal, strict=True) if constant and name not in ignored]
    return tuple(names[:MOST])
