"""The semantic key of a problem: the operators that one call of its reference runs,
and the data flow between them.

A tensor's term is a hash of the operator that made it, of the terms of its inputs, and of the
other arguments.  Inputs are identified by their index, parameters by shape and type.  An operator
that writes into a tensor changes the terms of all that share its memory.  The key is the hash of
the outputs' terms.  So it does not depend on names, modules or functions, nor on the
order of independent operators.

There are two keys: with numbers (shapes, dimensions, factors), and without.  Operators are
those that torch dispatches below autograd; for attention, and for batch normalisation, a GPU
may have other operators than a CPU.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from workers.backends.support.dispatch_mode import Watching, written

VERSION = "o1"
"""Version of the key's definition, changed whenever keys change."""

_SAME = frozenset({"aten::detach", "aten::alias", "aten::lift_fresh", "aten::clone"})
"""Operators that return their argument unchanged for the purpose of a key."""


class Term(NamedTuple):
    """Hashes of the expression that computes a tensor, with numbers and without."""

    numbered: bytes
    masked: bytes


class OperatorTrace(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that computes the key of one call."""

    def __init__(self, inputs: Iterable[object]) -> None:
        """`inputs`: values of the call; tensors among them are identified by their index."""
        super().__init__()
        self._terms: Any = WeakIdKeyDictionary()
        self._views: defaultdict[int, Any] = defaultdict(WeakIdKeyDictionary)
        """Tensors that share memory, views and their bases, by the address of it."""
        for index, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                self._terms[value] = _hashed(
                    f"input {index} {value.dtype}", [], f"{tuple(value.shape)}"
                )

    def key(self, outputs: Iterable[object]) -> str:
        """`o1:<with numbers>:<without>` of the call's outputs."""
        terms = [
            self._term(value) if isinstance(value, torch.Tensor) else _number(value)
            for value in outputs
        ]
        found = _hashed("outputs", terms, "")
        return f"{VERSION}:{found.numbered.hex()}:{found.masked.hex()}"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        taken = [
            *_values(args),
            *(part for name in sorted(kwargs) for part in _values((kwargs[name],))),
        ]
        terms = [
            self._term(one) if isinstance(one, torch.Tensor) else _number(one) for one in taken
        ]
        result = func(*args, **kwargs)
        name = func._schema.name
        made = terms[0] if name in _SAME and terms else _hashed(name, terms, "")
        for index, value in enumerate(_values((result,))):
            if isinstance(value, torch.Tensor):
                self._terms[value] = _result(made, index)
                if func.is_view:
                    self._views[_address(value)].update({value: True, args[0]: True})
        for index, tensor in enumerate(written(func, args, kwargs)):
            self._overwrite(tensor, _result(made, index))
        return result

    def _overwrite(self, tensor: torch.Tensor, term: Term) -> None:
        """Give a tensor that was written a term, and those that share its memory terms of both."""
        for other in list(self._views.get(_address(tensor), ())):
            self._terms[other] = _hashed("overwritten", [self._term(other), term], "")
        self._terms[tensor] = term

    def _term(self, tensor: torch.Tensor) -> Term:
        found: Term | None = self._terms.get(tensor)
        if found is None:
            found = self._terms[tensor] = _hashed(
                f"constant {tensor.dtype}", [], f"{tuple(tensor.shape)}"
            )
        return found


def _address(tensor: torch.Tensor) -> int:
    """Address of a tensor's storage; 0 without one."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _result(made: Term, index: int) -> Term:
    """Term of the result of this index of an operator with the term `made`."""
    return made if index == 0 else _hashed(f"result {index}", [made], "")


_NO_VALUES = (
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Generator,
    # Its text has every byte: reading those of an LSTM's weights, which are set to parts of one
    # storage on a GPU, took longer than observers may take.
    torch.UntypedStorage,
)
"""Types of arguments that do not change an operator's answer."""


def _values(values: Iterable[object]) -> Iterator[object]:
    """Values in order, with lists flattened."""
    for value in values:
        if isinstance(value, list | tuple):
            yield f"list {len(value)}"
            yield from _values(value)
        elif not isinstance(value, _NO_VALUES):
            yield value


def _number(value: object) -> Term:
    masked = (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)
    )
    if isinstance(value, str) and value.startswith("list "):
        masked = "list"
    return Term(repr(value).encode(), masked.encode())


def _hashed(head: str, terms: Iterable[Term], numbers: str) -> Term:
    numbered, masked = hashlib.blake2b(digest_size=8), hashlib.blake2b(digest_size=8)
    numbered.update(f"{head}|{numbers}".encode())
    masked.update(head.encode())
    for one in terms:
        numbered.update(b"|" + one.numbered)
        masked.update(b"|" + one.masked)
    return Term(numbered.digest(), masked.digest())
