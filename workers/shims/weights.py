"""Transfer of a problem's weights to a candidate's model: by name, and through the
model's `load_state_dict` hooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.nn.parameter import is_lazy

MOST_NAMED = 8
"""Most weights that a message names."""


def named(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers with their names."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def load(model: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Load a state dict into a model with `load_state_dict` code of its own, which may pack its
    weights then.  Other models are not changed.

    `values`: all weights of the problem; if the model refuses sizes that differ,
    those are left out.
    """
    if not any(_listens(module) for module in model.modules()):
        return
    wanted = set(model.state_dict())
    try:
        model.load_state_dict(dict(values), strict=False)
    except RuntimeError:  # sizes that differ
        shapes = {name: tensor.shape for name, tensor in named(model)}
        fitting = {
            name: value
            for name, value in values.items()
            if shapes.get(name, value.shape) == value.shape
        }
        model.load_state_dict(
            {name: value for name, value in fitting.items() if name in wanted}, strict=False
        )


def _listens(module: torch.nn.Module) -> bool:
    """Test whether loading a state dict runs code of the model's own."""
    kind = type(module)
    overridden = any(
        getattr(kind, name) is not getattr(torch.nn.Module, name)
        for name in ("load_state_dict", "_load_from_state_dict")
    ) and not kind.__module__.startswith("torch.")
    return bool(
        overridden or module._load_state_dict_pre_hooks or module._load_state_dict_post_hooks
    )


def stand_ins(
    model: torch.nn.Module, constants: Mapping[str, torch.Tensor], given: set[str]
) -> dict[str, str]:
    """Stand-ins: for a constant of the problem without a namesake in the model, the parameter or
    buffer of another name that corresponds to it.  It is the only unmatched one with that shape,
    type and values, and no other constant has them.

    `given`: names that the model and the problem share.
    """
    lonely = {name: value for name, value in constants.items() if name not in given}
    ours = {name: value.detach() for name, value in _unnamed(model, given).items()}
    found = {}
    for name, value in lonely.items():
        alike = [each for each, other in ours.items() if _are_alike(value, other)]
        if len(alike) == 1 == sum(_are_alike(value, other) for other in lonely.values()):
            found[name] = alike[0]
    return found


def absent(
    model: torch.nn.Module, constants: Mapping[str, torch.Tensor], given: set[str]
) -> set[str]:
    """Constants without a counterpart in the model: no unmatched parameter or buffer is as large,
    and no code of the model's own could pack them when a state dict is loaded.
    """
    if any(_listens(module) for module in model.modules()):
        return set()
    room = max((each.numel() for each in _unnamed(model, given).values()), default=0)
    return {name for name, value in constants.items() if name not in given and value.numel() > room}


def _unnamed(model: torch.nn.Module, given: set[str]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in named(model) if name not in given and not is_lazy(value)}


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.itemsize == 1:  # torch.equal has no floats of one byte
        one, other = one.view(torch.uint8), other.view(torch.uint8)
    return torch.equal(one, other)


def unmatched(model: torch.nn.Module, values: Mapping[str, torch.Tensor], given: set[str]) -> str:
    """Text that names the problem's weights without a counterpart in the model, and
    why; "" if all have one.  A weight that the model drew alike under another name has one.
    """
    ours = dict(named(model))
    renamed = [each.detach() for each in _unnamed(model, given).values()]
    found = [
        f"{name} ({_why(ours.get(name), value)})"
        for name, value in values.items()
        if name not in given and not any(_are_alike(value, each) for each in renamed)
    ]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _why(ours: torch.Tensor | None, value: torch.Tensor) -> str:
    if ours is None:
        return "no parameter or buffer of this name"
    if ours.shape != value.shape:
        return f"expected shape {list(value.shape)}, got {list(ours.shape)}"
    return (
        f"expected {str(value.dtype).removeprefix('torch.')}, got"
        f" {str(ours.dtype).removeprefix('torch.')}"
    )
