"""Calls under torch's profiler (Kineto over CUPTI) in the candidate's process: all
work of the device for them.

A kernel's origin follows from where it was launched.  A kernel launched within an operator of torch
is the library's. Outside of any operator it is the candidate's if Triton's recorder launched a
kernel of that name, if a shared object that the candidate built contains one, or if its source
defines one, to be compiled at run time (NVRTC, CuPy, Triton in another backend).  This does not
guard against a source that names a library's kernel and launches it outside of any operator, unless
the kernel's name follows the conventions of NVIDIA's libraries.
"""

from __future__ import annotations

import bisect
import ctypes
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from workers.backends.recording import products
from workers.backends.recording.recorder import synchronise
from workers.protocol.launch_records import MOST, Launch, Three, busy_ns

if os.environ.get("EVALUATION_DEVICE", "cpu") != "cpu":
    # imported by torch's profiler when it starts, in a second; here once, in the zygote
    import torch._dynamo

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHING = ("cuda_runtime", "cuda_driver")
_MANGLED = re.compile(rb"_Z[A-Za-z0-9_$.]{3,2000}")
_TRANSFER = re.compile(r"Memcpy (?:DtoH|HtoD)")
"""Transfers between host and device: `.item()`, a scalar argument."""

_INDUCTOR = re.compile(r"triton_(?:poi|red|per|tem|mm|for|unk|spl)_|triton__")
"""Names that torch.compile gives to its kernels."""


LIBRARY = re.compile(
    r"(?:void"
    r" )?(?:at::native::|cutlass::|cub::|thrust::|cublas|cudnn|cusparse|cusolver|cufft|magma)"
    r"|(?:volta|turing|ampere|hopper|sm\d\d)_\w*(?:gemm|gemv|xmma|cudnn|fprop|dgrad|wgrad)"
    r"|nvjet_|(?:void )?(?:splitKreduce_kernel|gemmSN|gemmk1|gemv2|gemvx|gemvNSP)"
)
"""Names of kernels in NVIDIA's and torch's libraries.  They decide the origin of a kernel that is
launched outside of any operator (by ctypes) and that the candidate did not build.
"""

RENAMED = "Kernel"
"""Name that Kineto's trace has in place of `kernel` (ChromeTraceLogger::handleActivity in
libkineto/src/output_json.cpp).
"""

WINDOW = "assay.call."
"""Prefix of the annotations that mark calls in the trace; the shim's own work
between calls is not counted.
"""

_Profiler = torch.profiler.profile
_Noted = torch.profiler.record_function
_parse = json.loads
"""Bound at import, before a candidate could replace them."""


def profile(
    call: Callable[[int], object],
    deliver: Callable[[int], object],
    count: int,
    scratch: Path,
    launched: set[str],
) -> tuple[int, list[Launch]]:
    """Nanoseconds for which the device was busy with the first of `count` calls, and the launches
    of all calls.  Gaps between launches are not counted, because the profiler slows the host down.

    `call(i)` makes call i; `deliver(i)` delivers its outputs, which is not counted;
    `scratch`: folder for the profiler's file; `launched`: names of Triton kernels that the
    recorder has seen.  If not all launches fit into the table, the last calls are dropped.
    Raises RuntimeError without a GPU.
    """
    if not torch.cuda.is_available():
        raise RuntimeError("the driver's profiler needs a GPU")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with _Profiler(activities=activities, record_shapes=True) as profiler:
        for index in range(count):
            with _Noted(f"{WINDOW}{index}"):
                call(index)
                synchronise()
            deliver(index)
    path = scratch / "profile.json"
    profiler.export_chrome_trace(str(path))
    events = _parse(path.read_bytes())["traceEvents"]
    path.unlink()
    found = launches(
        events, launched, BuiltKernels(scratch).holds, SourceKernels(scratch / "candidate.py").holds
    )
    if len(found) > MOST:
        found = [each for each in found if each.call == 0 or found[MOST].call > each.call]
    return busy_ns(each for each in found if each.call == 0), found


class Operator(NamedTuple):
    """One operator of torch on a host thread."""

    began: float
    ended: float
    name: str
    product_flops: int = 0
    """FLOPs of a matrix product or convolution; 0 for others."""
    number: int = 0

    @property
    def library(self) -> bool:
        """True for an operator of torch itself, False for one that a candidate defined."""
        return self.name.startswith("aten::")


def launches(
    events: Iterable[Any],
    launched: set[str],
    built: Callable[[str], bool],
    written: Callable[[str], bool] = lambda _: False,
) -> list[Launch]:
    """Launches in a Chrome trace written by Kineto, by start.  `built(name)`: whether a
    shared object of the candidate contains a kernel of that name; `written(name)`:
    whether its source defines one.
    """
    complete = [event for event in events if event.get("ph") == "X"]
    operators, windows = _operators(complete), _windows(complete)
    calls = {
        event["args"].get("correlation"): event
        for event in complete
        if event.get("cat") in _LAUNCHING
    }
    device = sorted(
        (event for event in complete if event.get("cat") in _ON_DEVICE),
        key=lambda event: event["ts"],
    )
    names = {_as_written(name): name for name in launched}
    found: list[Launch] = []
    began: dict[int, float] = {}
    for event in device:
        call = calls.get(event["args"].get("correlation"))
        number = _number_of(windows, (call or event)["ts"])
        if number is None:
            continue
        of_thread = operators.get((call["pid"], call["tid"]), []) if call else []
        within = next(_around(of_thread, (call or event)["ts"]), None)
        name = names.get(event["name"], event["name"])
        if name == RENAMED and not (name in launched or built(name) or written(name)):
            name = name.lower()
        origin = (
            "transfer"
            if _TRANSFER.match(name)
            else _origin(name, within is not None and within.library, launched, built, written)
        )
        product = _product(_around(of_thread, (call or event)["ts"]))
        found.append(
            _launch(name, event, began.setdefault(number, event["ts"]), origin)._replace(
                call=number,
                product_flops=product.product_flops if product else 0,
                operator=product.number if product else 0,
            )
        )
    return found


def _as_written(name: str) -> str:
    """Name of a kernel as Kineto writes it.  It demangles every name, also that of a Triton kernel
    `f`, which is the type `float` then.
    """
    return RENAMED if name == RENAMED.lower() else next(_demangled([name.encode()]), name)


def _windows(events: list[Any]) -> list[tuple[float, float]]:
    """Begin and end of each annotated call, on the host's clock.  Raises RuntimeError if another
    profiler has annotated calls as well.
    """
    noted = sorted(
        (event["name"], event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith(WINDOW)
    )
    found = sorted((began, ended) for _, began, ended in noted)
    if [name for name, *_ in noted] != sorted({name for name, *_ in noted}):
        raise RuntimeError("the profiler notes more calls than were made")
    return found


def _number_of(windows: list[tuple[float, float]], moment: float) -> int | None:
    """Number of the call around the moment; None between calls, 0 if no call is annotated."""
    if not windows:
        return 0
    number = bisect.bisect_right(windows, (moment, float("inf"))) - 1
    return number if number >= 0 and moment <= windows[number][1] else None


def _operators(events: list[Any]) -> dict[tuple[Any, Any], list[Operator]]:
    """Operators by thread, in the order in which they began."""
    found: dict[tuple[Any, Any], list[Operator]] = {}
    for number, event in enumerate(sorted(events, key=lambda event: event["ts"])):
        if event.get("cat") == "cpu_op":
            name, arguments = event["name"], event["args"]
            flops = products.of_shapes(
                name, arguments.get("Input Dims", ()), arguments.get("Concrete Inputs", ())
            )
            found.setdefault((event["pid"], event["tid"]), []).append(
                Operator(event["ts"], event["ts"] + event["dur"], name, flops, number)
            )
    return found


def _around(operators: list[Operator], moment: float) -> Iterator[Operator]:
    """Operators around the moment, from the innermost, the last to have begun, outwards."""
    last = bisect.bisect_right(operators, moment, key=lambda each: each.began)
    return (each for each in reversed(operators[:last]) if moment <= each.ended)


def _product(around: Iterator[Operator]) -> Operator | None:
    """The product or convolution that a launch within these operators, from the innermost outwards,
    belongs to; None if another operator launched it.
    """
    for operator in around:
        if operator.product_flops:
            return operator
        if operator.name not in products.WITHIN:
            return None
    return None


def _origin(
    name: str,
    within: bool,
    launched: set[str],
    built: Callable[[str], bool],
    written: Callable[[str], bool],
) -> str:
    if within:
        return "torch"
    if name in launched:
        return "triton"
    if _INDUCTOR.match(name):
        return "inductor"
    if built(name):
        return "extension"
    if LIBRARY.match(name):
        return "torch"
    return "extension" if written(name) else "unknown"


def _launch(name: str, event: Any, began: float, origin: str) -> Launch:
    arguments = event["args"]
    return Launch(
        name=name,
        origin=origin,
        start_ns=round((event["ts"] - began) * 1000),
        duration_ns=round(event["dur"] * 1000),
        stream=_number(arguments.get("stream")) or 0,
        grid=_three(arguments.get("grid")),
        block=_three(arguments.get("block")),
        registers=_number(arguments.get("registers per thread")),
        shared_bytes=_number(arguments.get("shared memory")),
    )


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value >= 0 else None


def _three(value: object) -> Three | None:
    return (
        (int(value[0]), int(value[1]), int(value[2]))
        if isinstance(value, list) and len(value) == 3
        else None
    )


_GLOBAL = re.compile(r"__global__\b([^{};]{1,1000}?)[{;]", re.S)
_ATTRIBUTES = re.compile(
    r"(?:__launch_bounds__|__attribute__|__cluster_dims__)\s*\((?:[^()]|\([^()]*\))*\)"
)
_CALLED = re.compile(r"(\w+)\s*\(")
_JITTED = re.compile(r"@[\w.]*jit\b[^\n]*\n(?:\s*(?:@|#)[^\n]*\n)*\s*def\s+(\w+)")
_BASE = re.compile(r"(?:void )?(?:\w+::|\(anonymous namespace\)::)*(\w+)")


class SourceKernels:
    """Kernels that a source defines, in CUDA or in Triton."""

    def __init__(self, source: Path) -> None:
        """Reads the source at the first query."""
        self._source = source
        self._names: set[str] | None = None

    def holds(self, name: str) -> bool:
        """Test whether the source defines a kernel of that name.  Kineto's names include
        return type, scopes and parameters.
        """
        if self._names is None:
            self._names = defined(self._source.read_text(errors="replace"))
        base = _BASE.match(name)
        return base is not None and base[1] in self._names


def defined(source: str) -> set[str]:
    """Names of the kernels that a source defines."""
    found = set(_JITTED.findall(source))
    for head in _GLOBAL.findall(source):
        called = _CALLED.search(_ATTRIBUTES.sub(" ", head))
        found |= {called[1]} if called else set()
    return found


class BuiltKernels:
    """Kernels in shared objects that this process has mapped from folders that
    candidates can write.
    """

    def __init__(self, scratch: Path) -> None:
        """Reads the files at the first query."""
        writable = [
            scratch,
            Path(tempfile.gettempdir()),
            Path(os.environ.get("TORCH_EXTENSIONS_DIR", scratch)),
        ]
        self._writable = [folder.resolve() for folder in writable]
        self._names: set[str] | None = None

    def holds(self, name: str) -> bool:
        """Test whether a shared object has a kernel of that name, literally (`extern
        "C"`) or demangled.
        """
        if self._names is None:
            self._names = set().union(*map(_symbols, self._objects()))
        return name in self._names

    def _objects(self) -> list[Path]:
        lines = Path("/proc/self/maps").read_text().splitlines()
        mapped = {
            Path(line.split(maxsplit=5)[5])
            for line in lines
            if line.endswith(".so") and "/" in line
        }
        return [
            path for path in mapped if any(path.is_relative_to(folder) for folder in self._writable)
        ]


def _symbols(path: Path) -> set[str]:
    """Names in a shared object, also demangled: it contains the mangled names of its
    kernels as text.
    """
    data = path.read_bytes()
    names = {match.decode() for match in re.findall(rb"(?<=\0)[A-Za-z_]\w{0,255}(?=\0)", data)}
    return names.union(_demangled(set(_MANGLED.findall(data))))


def _demangled(names: Iterable[bytes]) -> Iterator[str]:
    """The names among these that are mangled, demangled."""
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    for name in names:
        pointer = demangle(name, None, None, None)
        if pointer:
            yield ctypes.string_at(pointer).decode("utf-8", "replace")
            free(pointer)
