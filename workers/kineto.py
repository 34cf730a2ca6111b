"""One call under torch's profiler (Kineto over CUPTI), in the candidate's process: all that the device did for it.

Whose a kernel is follows from where it was launched, not from what it is called: within an operator of torch it is the
library's, whatever its name; outside of any it is the candidate's where Triton's recorder launched a kernel of that
name, or where a shared object that the candidate built holds one."""

from __future__ import annotations

import bisect
import ctypes
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from workers.backends.base import synchronise
from workers.launches import Launch, Three, busy_ns

if os.environ.get("EVALUATION_DEVICE", "cpu") != "cpu":
    import torch._dynamo  # what starts torch's profiler imports it: a second, once for all in the zygote

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHING = ("cuda_runtime", "cuda_driver")
_MANGLED = re.compile(rb"_Z[A-Za-z0-9_$.]{3,2000}")
_TRANSFER = re.compile(r"Memcpy (?:DtoH|HtoD)")
"""Between host and device: `.item()`, a scalar argument."""

_INDUCTOR = re.compile(r"triton_(?:poi|red|per|tem|mm|for|unk|spl)_|triton__")
"""Names that torch.compile gives to its kernels."""


def profile(call: Callable[[], object], scratch: Path, launched: set[str]) -> tuple[int, list[Launch]]:
    """Nanoseconds in which the device did anything, and all that it did.  Not those from the first to the last: here
    it waits for the host, which the profiler slows down.

    `scratch`: a folder for the profiler's own file; `launched`: names of Triton kernels that the recorder has seen.
    Raises RuntimeError where there is no GPU."""
    if not torch.cuda.is_available():
        raise RuntimeError("the driver's profiler needs a GPU")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        call()
        synchronise()
    path = scratch / "profile.json"
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_bytes())["traceEvents"]
    path.unlink()
    found = launches(events, launched, Built(scratch).holds)
    return busy_ns(found), found


class Operator(NamedTuple):
    """One of torch's, on a thread of the host."""

    began: float
    ended: float
    library: bool


def launches(events: Iterable[Any], launched: set[str], built: Callable[[str], bool]) -> list[Launch]:
    """The device's part of a Chrome trace as Kineto writes it, by start; `built`: whether a shared object of the
    candidate's holds a kernel of that name."""
    complete = [event for event in events if event.get("ph") == "X"]
    operators = _operators(complete)
    calls = {event["args"].get("correlation"): event for event in complete if event.get("cat") in _LAUNCHING}
    device = sorted((event for event in complete if event.get("cat") in _ON_DEVICE), key=lambda event: event["ts"])
    found = []
    for event in device:
        call = calls.get(event["args"].get("correlation"))
        within = call is not None and _within(operators.get((call["pid"], call["tid"]), []), call["ts"])
        name = event["name"]
        origin = "transfer" if _TRANSFER.match(name) else _origin(name, within, launched, built)
        found.append(_launch(event, device[0]["ts"], origin))
    return found


def _operators(events: list[Any]) -> dict[tuple[Any, Any], list[Operator]]:
    """By thread, in the order in which they began."""
    found: dict[tuple[Any, Any], list[Operator]] = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        if event.get("cat") == "cpu_op":
            library = event["name"].startswith("aten::")
            found.setdefault((event["pid"], event["tid"]), []).append(
                Operator(event["ts"], event["ts"] + event["dur"], library)
            )
    return found


def _within(operators: list[Operator], moment: float) -> bool:
    """Whether the innermost operator around the moment is the library's: they nest, so it is the last to have begun."""
    last = bisect.bisect_right(operators, moment, key=lambda each: each.began)
    for operator in reversed(operators[:last]):
        if moment <= operator.ended:
            return operator.library
    return False


def _origin(name: str, within: bool, launched: set[str], built: Callable[[str], bool]) -> str:
    if within:
        return "torch"
    if name in launched:
        return "triton"
    if _INDUCTOR.match(name):
        return "inductor"
    return "extension" if built(name) else "unknown"


def _launch(event: Any, began: float, origin: str) -> Launch:
    arguments = event["args"]
    return Launch(
        name=event["name"], origin=origin, start_ns=round((event["ts"] - began) * 1000),
        duration_ns=round(event["dur"] * 1000), stream=_number(arguments.get("stream")) or 0,
        grid=_three(arguments.get("grid")), block=_three(arguments.get("block")),
        registers=_number(arguments.get("registers per thread")), shared_bytes=_number(arguments.get("shared memory")),
    )  # fmt: skip


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value >= 0 else None


def _three(value: object) -> Three | None:
    return (int(value[0]), int(value[1]), int(value[2])) if isinstance(value, list) and len(value) == 3 else None


class Built:
    """Kernels in shared objects that this process has mapped from where candidates write."""

    def __init__(self, scratch: Path) -> None:
        """Reads no file before the first question."""
        writable = [scratch, Path(tempfile.gettempdir()), Path(os.environ.get("TORCH_EXTENSIONS_DIR", scratch))]
        self._writable = [folder.resolve() for folder in writable]
        self._names: set[str] | None = None

    def holds(self, name: str) -> bool:
        """Whether there is a kernel of that name: as it is written (`extern "C"`), or demangled as Kineto does it."""
        if self._names is None:
            self._names = set().union(*map(_symbols, self._objects()))
        return name in self._names

    def _objects(self) -> list[Path]:
        lines = Path("/proc/self/maps").read_text().splitlines()
        mapped = {Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith(".so") and "/" in line}
        return [path for path in mapped if any(path.is_relative_to(folder) for folder in self._writable)]


def _symbols(path: Path) -> set[str]:
    """Names in a shared object: kernels are registered under their mangled names, which stand in it as text."""
    data = path.read_bytes()
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    names = {match.decode() for match in re.findall(rb"(?<=\0)[A-Za-z_]\w{0,255}(?=\0)", data)}
    for mangled in set(_MANGLED.findall(data)):
        pointer = demangle(mangled, None, None, None)
        if pointer:
            names.add(ctypes.string_at(pointer).decode("utf-8", "replace"))
            free(pointer)
    return names
