"""The true answer of a reference, in fp64, even if its code requests narrower types.

A copy of the model in fp64 (its twin) computes in fp64 unless the problem's code requests another
type: `x.float()`, states made by `torch.zeros`, products in bf16.  So the twin runs under
`Widened`, which replaces every narrower type by fp64, while `tensor.dtype` reads as the code
expects.  If that does not run, or differs from the reference's answer by more than rounding
explains, the next best truth is used (best_truth.py).

A cast to a float of one byte is no precision of the computation but a step of it, as `round` is:
its result is rounded to that type before anything is computed from it.

`rounding.Perturbed` repeats the computation with an error of the size of a rounding in every
operation that rounds. The change of the answer shows the possible effect of rounding; see
equivalent_answers.py.

For a reference that reinterprets bits (`view(torch.int32)`) or calls kernels of its own, the truth
is the reference's own answer, and the tolerance is the floor of its type.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from workers.backends.recording import library_work
from workers.backends.support.dispatch_mode import Watching, written
from workers.protocol import layout, precision_flags
from workers.protocol.problem_spec import OWN_TRUTH
from workers.protocol.roundoff import is_inexact
from workers.shims import shortages, weights


class Truth(StrEnum):
    """Method by which the expected answer was computed, from best to worst; stored
    with the result.
    """

    FP64 = "fp64"
    """The model in fp64, with its code unchanged."""
    WIDENED = "fp64, casts lifted"
    """The model in fp64, with fp64 for every narrower type that its code requests."""
    SINGLE = "fp32, casts lifted, TF32 off"
    """The reference in fp32, if an operation has no fp64 form."""
    OWN = OWN_TRUTH


def twin(model: Any, truth: Truth, *, plain: bool = False) -> Any:
    """A copy of the model that computes this truth; None for Truth.OWN.  `plain`: without cuDNN
    (plain_convolutions.py).
    """
    if truth is Truth.OWN:
        return None
    copied = copy.deepcopy(model)
    if not isinstance(copied, torch.nn.Module):
        return copied
    wide = copied.float() if truth is Truth.SINGLE else copied.double()
    for (_, mine), (_, theirs) in zip(weights.named(wide), weights.named(model), strict=True):
        mine._nominal = theirs.dtype  # type: ignore[attr-defined]
    wide._is_plain = plain  # type: ignore[assignment]
    return wide


def widened(value: Any, truth: Truth = Truth.FP64) -> Any:
    """Copy of a value, with floating-point tensors in the type of this truth."""
    to = torch.float32 if truth is Truth.SINGLE else torch.float64

    def wider(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        found = x.to(_wide(x.dtype, to), copy=True) if is_inexact(x.dtype) else x.clone()
        found._nominal = x.dtype  # type: ignore[attr-defined]
        return found

    return layout.mapped(wider, value)


def call(model: Any, inputs: list[Any], truth: Truth) -> Any:
    """The answer of a twin to widened inputs, which the call may change."""
    library = _without_cudnn() if getattr(model, "_is_plain", False) else nullcontext()
    with shortages.disregarded(), torch.no_grad(), _mode(truth), library:
        return model(*inputs)


def _wide(dtype: torch.dtype, to: torch.dtype) -> torch.dtype:
    """The type that replaces `dtype` if no real type narrower than `to` is allowed."""
    if dtype.is_complex:
        return torch.promote_types(
            dtype, torch.complex64 if to == torch.float32 else torch.complex128
        )
    if not dtype.is_floating_point or dtype == torch.float64:
        return dtype
    return to


def nominal(tensor: torch.Tensor) -> torch.dtype:
    """The type that a tensor has from the point of view of the problem's code."""
    found: torch.dtype = getattr(tensor, "_nominal", tensor.dtype)
    return found


@contextmanager
def _mode(truth: Truth) -> Iterator[None]:
    if truth not in (Truth.WIDENED, Truth.SINGLE):
        yield
        return
    to = torch.float32 if truth is Truth.SINGLE else torch.float64
    with NominalTypes(), Widened(to), _without_tf32() if truth is Truth.SINGLE else nullcontext():
        yield


@contextmanager
def _without_cudnn() -> Iterator[None]:
    before = torch._C._get_cudnn_enabled()
    torch._C._set_cudnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_cudnn_enabled(before)


@contextmanager
def _without_tf32() -> Iterator[None]:
    """Products in full fp32, on a GPU."""
    before = precision_flags.chosen()
    precision_flags.choose(
        before | {flag: "ieee" for flag in precision_flags.PLACES if before[flag] == "tf32"}
    )
    try:
        yield
    finally:
        precision_flags.choose(before)


class NominalTypes(TorchFunctionMode):
    """Function mode in which `tensor.dtype` is the nominal type: the problem's code
    asserts and chooses types by it.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__self__", None) is torch.Tensor.dtype:
            return nominal(args[0])
        return func(*args, **(kwargs or {}))


class Narrowing(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records whether any operator receives, requests or returns a
    floating-point type narrower than fp64.  If none does, `Widened` computes the same.
    Comparing both results would not show that if the order of sums varies, as in
    transposed convolutions on a GPU.
    """

    def __init__(self) -> None:
        """Without a record at first."""
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.seen:
            self.seen = func is torch.ops.aten.view.dtype
            layout.mapped(self._look, (args, kwargs or {}, result))
        return result

    def _look(self, value: Any) -> None:
        dtype = value.dtype if isinstance(value, torch.Tensor) else value
        if (
            isinstance(dtype, torch.dtype)
            and is_inexact(dtype)
            and _wide(dtype, torch.float64) != dtype
        ):
            self.seen = True


class Widened(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that computes in fp64 (or `to`) in place of every narrower
    floating-point type.
    """

    def __init__(self, to: torch.dtype = torch.float64) -> None:
        """`to`: float64 or float32."""
        super().__init__()
        self._to = to

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.view.dtype:
            raise NotImplementedError("bits are reinterpreted, which have no wider form")
        outs = written(func, args, kwargs)
        called = _result_type(args, kwargs)
        args, kwargs = layout.mapped(
            lambda each: self._lifted(each, outs, rounds=not func.is_view), (args, kwargs)
        )
        return self.compute(func, called, args, kwargs)

    def compute(self, func: Any, called: torch.dtype, args: Any, kwargs: Any) -> Any:
        """Result of an operation on wide arguments; its nominal type is `called`."""
        result = func(*args, **kwargs)
        return (
            result
            if func._schema.is_mutable
            else layout.mapped(lambda each: self._noted(each, called, args), result)
        )

    def _lifted(self, value: Any, outs: list[torch.Tensor], *, rounds: bool) -> Any:
        """An argument in the wide type.  `rounds`: one that the problem's code has cast to floats
        of one byte is rounded.  The result of such a cast is not: an output's rounding is an error.
        """
        if not isinstance(value, torch.Tensor):
            return _wide(value, self._to) if isinstance(value, torch.dtype) else value
        if outs and any(value is each for each in outs):
            return value
        if rounds and is_code(code := nominal(value)) and value.dtype != code:
            value = value.to(code)
            value._nominal = code
        dtype = value.dtype
        wide = _wide(dtype, self._to)
        if wide == dtype:
            return value
        found = value.to(wide)
        found._nominal = nominal(value)
        return found

    def _noted(self, value: Any, called: torch.dtype, args: Any) -> Any:
        if (
            not isinstance(value, torch.Tensor)
            or not is_inexact(value.dtype)
            or any(value is each for each in args)
        ):
            return value
        wide = _wide(value.dtype, self._to)
        found = value if wide == value.dtype else value.to(wide)
        found._nominal = called  # type: ignore[attr-defined]
        return found


def is_code(dtype: torch.dtype) -> bool:
    """Test for floats of one byte: a cast to them quantises."""
    return dtype.is_floating_point and dtype.itemsize == 1


def _result_type(args: Any, kwargs: Any) -> torch.dtype:
    """Nominal floating-point type of an operation's result: the requested one, else the widest of
    its arguments; those without dimensions count only if all arguments are.
    """
    asked = kwargs.get("dtype")
    if isinstance(asked, torch.dtype) and is_inexact(asked):
        return asked
    several: torch.dtype | None = None
    single: torch.dtype | None = None
    for each in library_work.tensors([*args, *kwargs.values()] if kwargs else args):
        kind = nominal(each)
        if not is_inexact(kind):
            continue
        if each.dim():
            several = _promoted(several, kind)
        else:
            single = _promoted(single, kind)
    return several or single or torch.get_default_dtype()


def _promoted(left: torch.dtype | None, right: torch.dtype) -> torch.dtype:
    if left is None or left == right:
        return right
    try:
        return torch.promote_types(left, right)
    except RuntimeError:  # types of one byte are promoted to nothing
        return left if left.itemsize >= right.itemsize else right
