"""Triton: interpreted on the CPU device, compiled on a GPU; every launch is recorded."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton import knobs
from triton.compiler import CompiledKernel
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, InterpreterBuilder
from triton.runtime.jit import JITFunction

from workers.backends import base
from workers.backends.recording import library_work
from workers.backends.recording.recorder import Recorder
from workers.backends.support import kernel_constants, kernel_digest
from workers.backends.support.import_hook import once_imported
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import Launch, Three

if knobs.runtime.interpret:  # only then, because a GPU's zygote needs none of them
    from workers.backends.interpreter import (
        claimed_gpu,
        concurrent_programs,
        constant_values,
        enclosing_names,
        language_names,
        libdevice,
        listed_grids,
        narrow_floats,
        no_gpu,
        reductions,
        tf32_products,
        typed_results,
        written_annotations,
    )

INDUCTOR = "torch._inductor.runtime.triton_heuristics"
"""Module that launches Triton kernels for torch.compile.  A zygote does not import it, because that
starts a thread.
"""

WARP = 32
"""Threads of a warp."""

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_TYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "i1",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
}


class TritonBackend:
    """Executes the source, with every launch recorded: interpreted kernels if TRITON_INTERPRET is
    1, compiled ones otherwise.
    """

    def build(self, path: Path, recorder: Recorder) -> ModuleType:
        """See base.Backend."""
        for kind in (InterpretedFunction, JITFunction):
            _record_run(kind, recorder)
        if knobs.runtime.interpret:
            _use_first_configuration()
            _convert_scalars()
            language_names.install()
            libdevice.install()
            narrow_floats.install()
            constant_values.install()
            reductions.install()
            typed_results.install()
            concurrent_programs.install()
            tf32_products.install()
            no_gpu.install()
            claimed_gpu.install(path)
            enclosing_names.install()
            written_annotations.install()
            listed_grids.install()
            _count_work(recorder)
            library_work.watch_exports()
        else:
            _record_compiled(recorder)
            once_imported(INDUCTOR, partial(_record_inlined, recorder))
        return base.execute(path)


def _host_part(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
    """Run the parts of a launch other than the kernel: its hooks and its grid function, which may
    have side effects.
    """
    for hook in function.pre_run_hooks:
        hook(*args, **kwargs)
    if callable(grid):
        parameters = inspect.signature(function.fn).parameters.values()
        defaults = {
            each.name: each.default for each in parameters if each.default is not each.empty
        }
        grid({**defaults, **dict(zip(function.arg_names, args, strict=False)), **kwargs})


def _use_first_configuration() -> None:
    """Make autotuning use its first configuration: without a GPU configurations cannot be compared,
    and Triton's autotuner requires the driver's clock.
    """

    def equal_times(*args: Any, **kwargs: Any) -> list[float]:  # noqa: ARG001 (Autotuner._bench's)
        return [0.0, 0.0, 0.0]

    unbound: Any = Autotuner
    unbound._bench = equal_times


def _convert_scalars() -> None:
    """Pass floats and bools to interpreted kernels in the types of compiled ones: fp32 scalars,
    which have methods and promote fp16 operands, and one bit.  The interpreter passes Python's
    float, and a bool of 32 bits, which it refuses.
    """
    original = interpreter._implicit_cvt

    def typed(value: Any) -> Any:
        if type(value) is bool:
            return tl.tensor(interpreter.TensorHandle(np.array([value]), tl.int1), tl.int1)
        if type(value) is not float:
            return original(value)
        return tl.tensor(
            interpreter.TensorHandle(np.array([value], dtype=np.float32), tl.float32), tl.float32
        )

    interpreter._implicit_cvt = typed


def _record_run(kind: Any, recorder: Recorder) -> None:
    """Record launches of the form `kernel[grid](…)`, which call `kind.run`."""
    original = kind.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        try:  # in place: one more frame would be in the clocked time of every launch
            if recorder.idle:
                result = original(self, *args, grid=grid, warmup=warmup, **kwargs)
            elif recorder.ablate in (AblationMode.NOTHING, AblationMode.SILENT):
                _host_part(self, args, kwargs, grid)
                result = recorder.returned.get(self.fn)
            else:
                sized = ObservedGrid(grid, recorder.kernel_begins)
                result = recorder.launch(
                    lambda: original(self, *args, grid=sized, warmup=warmup, **kwargs),
                    lambda kernel: _launch(self.fn.__name__, kernel, sized.grid),
                    _signature(self, args, kwargs),
                    (*args, *kwargs.values()),
                    self.fn,
                )
        except Exception as error:
            recorder.failed(f"kernel {self.fn.__name__}", error)
            raise
        recorder.count(self.fn.__name__)
        return result

    run.__module__, run.__qualname__ = original.__module__, original.__qualname__  # in messages
    kind.run = run


def _count(mask: Any) -> int:
    """Number of elements that a mask selects.  The interpreter represents the mask of a block
    pointer with bounds as a bare array.
    """
    return int(np.count_nonzero(mask if isinstance(mask, np.ndarray) else mask.data))


def _count_work(recorder: Recorder) -> None:
    """Make the interpreter report the bytes and products of a profiled call's kernels to the
    recorder.
    """
    builder: Any = InterpreterBuilder
    load, store, dot = builder.create_masked_load, builder.create_masked_store, builder.create_dot
    atomics = builder.create_atomic_rmw

    def counting_load(self: Any, ptrs: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        result = load(self, ptrs, mask, *args, **kwargs)
        if recorder.profiled is not None:
            recorder.work = recorder.work.moved(_count(mask) * result.data.itemsize)
        return result

    def counting_store(
        self: Any, ptrs: Any, value: Any, mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if recorder.profiled is not None:
            recorder.work = recorder.work.moved(_count(mask) * value.data.itemsize)
        return store(self, ptrs, value, mask, *args, **kwargs)

    def counting_rmw(
        self: Any, op: Any, ptr: Any, value: Any, mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if recorder.profiled is not None:
            recorder.work = recorder.work.moved(2 * _count(mask) * value.data.itemsize)
        return atomics(self, op, ptr, value, mask, *args, **kwargs)

    def counting_dot(self: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.profiled is not None:
            recorder.work = recorder.work.computed(2 * a.data.size * b.data.shape[-1])
        return dot(self, a, b, *args, **kwargs)

    for name in ("_init_args_hst", "_restore_args_dev"):
        setattr(GridExecutor, name, library_work.copying()(getattr(GridExecutor, name)))
    builder.create_masked_load, builder.create_masked_store = counting_load, counting_store
    builder.create_atomic_rmw, builder.create_dot = counting_rmw, counting_dot


def _record_compiled(recorder: Recorder) -> None:
    """Record launches of a kernel that `warmup` has compiled: `compiled[grid](…)`."""
    unbound: Any = CompiledKernel
    original = unbound.__getitem__

    def with_grid(self: Any, grid: Any) -> Callable[..., Any]:
        launch = original(self, grid)

        def run(*args: Any, **kwargs: Any) -> None:
            if recorder.idle:
                launch(*args, **kwargs)
            else:
                described = _launch(self.name, self, tuple(grid))
                recorder.launch(lambda: launch(*args, **kwargs), lambda _: described, None, args)
            recorder.count(self.name)

        return run

    unbound.__getitem__ = with_grid


def _record_inlined(recorder: Recorder, module: Any) -> None:
    """Record the candidate's kernels in functions under torch.compile: Inductor copies their source
    into its own, and launches them like the kernels that it generates.  `module`: INDUCTOR.
    """
    original = module.CachingAutotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.custom_kernel:
            return original(self, *args, **kwargs)
        name = self.fn.__name__
        if recorder.idle:
            result = original(self, *args, **kwargs)
        else:
            described = _launch(name, None, ())
            result = recorder.launch(
                lambda: original(self, *args, **kwargs), lambda _: described, None, args
            )
        recorder.count(name)
        return result

    module.CachingAutotuner.run = run


class ObservedGrid:
    """A launch's grid that stores its value, which may be a function of the kernel's options."""

    def __init__(self, grid: Any, known: Callable[[], None] = lambda: None) -> None:
        """`grid`: one to three numbers, or a function that returns them; `known`: called when the
        grid is evaluated, the last step of the host in a launch.
        """
        self._asked = grid
        self._known = known
        self.grid: tuple[int, ...] = ()

    def __call__(self, options: dict[str, Any]) -> tuple[int, ...]:
        """The evaluated grid; Triton calls this when it launches."""
        asked = self._asked(options) if callable(self._asked) else self._asked
        self.grid = tuple(
            map(operator.index, asked)
        )  # the interpreter's options are scalars of its own type
        self._known()
        return self.grid


def _launch(name: str, kernel: Any, grid: tuple[int, ...]) -> Launch:
    """Name, origin and sizes of a launch.  `kernel`: the compiled kernel, None for an interpreted
    one.
    """
    metadata = getattr(kernel, "metadata", None)
    warps = getattr(metadata, "num_warps", None)
    return Launch(
        name=name,
        origin="triton",
        grid=_three(grid) if grid else None,
        block=(WARP * warps, 1, 1) if warps else None,
        registers=getattr(kernel, "n_regs", None),
        shared_bytes=getattr(metadata, "shared", None),
    )


def _three(grid: tuple[int, ...]) -> Three:
    """The grid in three dimensions; missing sizes are 1."""
    x, y, z, *_ = (*grid, 1, 1)
    return x, y, z


def _signature(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Name, signature, constants and options of one launch, as JSON."""
    bound = dict(zip(function.arg_names, args, strict=False)) | {
        name: value for name, value in kwargs.items() if name in function.arg_names
    }
    annotations, kept = function.fn.__annotations__, _not_specialized(function)
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for index, name in enumerate(function.arg_names):
        value = bound.get(name, _default(function.fn, name))
        kind = "constexpr" if "constexpr" in str(annotations.get(name, "")) else _type_of(value)
        if type(value) is int and value == 1 and name not in kept and index not in kept:
            kind = "constexpr"  # Triton treats the value 1 as a constant, too
        signature[name] = kind
        if kind == "constexpr":
            constants[name] = kernel_constants.written(value)
    options = {name: kwargs[name] for name in _OPTIONS if isinstance(kwargs.get(name), int)}
    return {
        "name": function.fn.__name__,
        "signature": signature,
        "constants": constants,
        "options": options,
        "digest": kernel_digest.digest(function),
    }


def _not_specialized(function: Any) -> Sequence[str | int]:
    """Names and positions of the arguments that never become constants.  `function`: a compiled or
    an interpreted function.
    """
    options = getattr(function, "kwargs", None) or vars(function)
    return options.get("do_not_specialize") or ()


def _default(fn: Any, name: str) -> Any:
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(fn.__defaults__ or ()), strict=False))
    return defaults.get(name)


def _type_of(value: Any) -> str:
    """Triton's name for the type of an argument (triton.runtime.jit, mangle_type)."""
    if isinstance(value, torch.Tensor):
        return "*" + _TYPES.get(value.dtype, str(value.dtype))
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return (
        "fp32"
        if isinstance(value, float)
        else "constexpr"
        if value is None
        else type(value).__name__
    )
