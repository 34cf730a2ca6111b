"""Outputs of a call, as a model returned them, held to the problem's spec and copied
into output slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.control_channel import ReplyCode


class RefusedOutputError(Exception):
    """Error: the model's outputs differ from the spec in structure, type or shape."""

    def __init__(self, outcome: ReplyCode, message: str) -> None:
        """`message` states the expected value and the one found."""
        super().__init__(message)
        self.outcome = outcome


def deliver(value: object, node: layout.Node, views: list[torch.Tensor]) -> None:
    """Copy the outputs of a call into its output slot.  Raises RefusedOutputError
    where they differ from the spec.
    """
    write(paired(value, node, views))


def write(pairs: Iterable[tuple[Any, torch.Tensor]]) -> None:
    """Copy outputs into the views beside them."""
    for item, view in pairs:
        if isinstance(item, torch.Tensor):
            view.copy_(item)
        else:
            view.fill_(item)


def paired(
    value: object, node: layout.Node, views: list[torch.Tensor]
) -> Iterator[tuple[Any, torch.Tensor]]:
    """Each output with its view in the output slot: a tensor of the right shape and type,
    or a number if the spec has one.
    """
    returned = _leaves(value, node)
    if len(returned) != len(views):
        raise RefusedOutputError(
            ReplyCode.WRONG_STRUCTURE, f"expected {len(views)} outputs, got {len(returned)}"
        )
    for index, (item, leaf, view) in enumerate(
        zip(returned, layout.leaves(node), views, strict=True)
    ):
        if leaf["kind"] == "tensor" or not isinstance(item, bool | int | float):
            _check(item, index, view)
        yield item, view


def _leaves(value: object, node: layout.Node) -> list[Any]:
    """The returned leaves, in the spec's order; containers of the wrong kind are refused.

    Containers are read as their builtin base class: one with code of its own could compute when
    read, after the call and in no profile of it.
    """
    if "items" not in node:
        return [value] if node["kind"] not in ("none", "str", "dtype") else []
    if node["kind"] == "dict":
        keys = set(dict.keys(value)) if isinstance(value, dict) else None
        if not isinstance(value, dict) or keys != set(node["keys"]):
            came = (
                f"a dict with keys {sorted(map(str, keys))}"
                if keys is not None
                else type(value).__name__
            )
            raise RefusedOutputError(
                ReplyCode.WRONG_STRUCTURE,
                f"expected a dict with keys {sorted(node['keys'])}, got {came}",
            )
        items = [dict.__getitem__(value, key) for key in node["keys"]]
    else:
        found = _inherited(value)
        if found is None or len(found) != len(node["items"]):
            came = f"one {type(value).__name__}" if found is None else str(len(found))
            raise RefusedOutputError(
                ReplyCode.WRONG_STRUCTURE, f"expected {len(node['items'])} outputs, got {came}"
            )
        items = found
    pairs = zip(items, node["items"], strict=True)
    return list(itertools.chain.from_iterable(_leaves(item, each) for item, each in pairs))


def _inherited(value: object) -> list[Any] | None:
    """Items of a list or a tuple; None of anything else."""
    if isinstance(value, list):
        return list(list.__iter__(value))
    return list(tuple.__iter__(value)) if isinstance(value, tuple) else None


def _check(item: object, index: int, view: torch.Tensor) -> None:
    if type(item) not in (torch.Tensor, torch.nn.Parameter):
        raise RefusedOutputError(
            ReplyCode.WRONG_TYPE,
            f"output {index}: expected torch.Tensor, got {_type_name(type(item))}",
        )
    assert isinstance(item, torch.Tensor)
    if item.shape != view.shape:
        raise RefusedOutputError(
            ReplyCode.WRONG_SHAPE,
            f"output {index}: expected shape {tuple(view.shape)}, got {tuple(item.shape)}",
        )
    if item.dtype != view.dtype:
        raise RefusedOutputError(
            ReplyCode.WRONG_DTYPE, f"output {index}: expected {view.dtype}, got {item.dtype}"
        )


def _type_name(kind: type) -> str:
    """Name of a type, with its module unless it is a builtin."""
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
