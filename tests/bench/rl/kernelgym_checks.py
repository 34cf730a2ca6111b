"""KernelGYM's checks, rebuilt from their documentation: its server's answer on a candidate.

    python -m tests.bench.rl.kernelgym_checks --device cuda < tasks.jsonl > results.jsonl

Source: hkust-nlp/KernelGYM@3a84417, kernelgym/toolkit/kernelbench: correctness.py:32-126 (five
seeds from 42, one set of weights, allclose at 1e-2, no gradients), triton_detect.py:442-509 (a
launch in inference mode and one with gradients), pipeline.py:57-112 and 312-322 (decoys),
timing.py:30-52 and 117-124 (three warm-ups, mean of 100 calls between events with gradients on one
set of inputs, three significant digits), profiling.py:17-63 (coverage by names that contain each
other; CPU time in the denominator).  Beside that coverage stands the paper's (eq. 7), of kernels
alone.  Candidate, reference and checks share a process, as they do there.

Differences: a process is forked from one that has loaded torch, in place of a fresh
interpreter; one candidate at a time has the device while others load; kernels are compiled
before, so that no compilation waits for the device; a launch does not also record the word
`function`.  On the CPU device a clock takes the place of events and there is no profile: that
is for trying this program only.

A task is a JSON line: `id`, `reference`, and `candidate` (null: time the reference).  Results have
the keys of KernelGYM's, in milliseconds and microseconds.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

CORRECT_TRIALS = 5
WARM_UPS = 3
TOLERANCE = 1e-2
PROFILED_CALLS = 10
PATIENCE_S = 120.0
"""Time for one task."""


def _inputs(module: Any, device: str) -> list[Any]:
    return [
        each.to(device) if isinstance(each, torch.Tensor) else each
        for each in module["get_inputs"]()
    ]


def _loaded(source: str) -> Any:
    """The candidate's module, from a file of this process's own, as Triton needs it."""
    path = Path(tempfile.gettempdir()) / f"candidate_{os.getpid()}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("temp_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _model(make: Any, arguments: list[Any], device: str) -> Any:
    torch.manual_seed(42)
    with torch.no_grad():
        return make(*arguments).to(device)


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _correct(module: Any, model: Any, new_model: Any, device: str) -> bool:
    torch.manual_seed(42)
    seeds = [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(CORRECT_TRIALS)]
    with torch.no_grad():
        for seed in seeds:
            torch.manual_seed(seed)
            inputs = _inputs(module, device)
            output = model(*inputs)
            _synchronise(device)
            output_new = new_model(*inputs)
            _synchronise(device)
            if output.shape != output_new.shape:
                return False
            if not torch.allclose(output, output_new, atol=TOLERANCE, rtol=TOLERANCE):
                return False
    return True


class _Hooked:
    """Context that notes the names of the kernels launched in it."""

    def __init__(self) -> None:
        if os.environ.get("TRITON_INTERPRET") == "1":
            from triton.runtime.interpreter import GridExecutor

            self._owner, self._method = GridExecutor, "__call__"
        else:
            from triton.runtime.jit import JITFunction

            self._owner, self._method = JITFunction, "run"
        self._original = getattr(self._owner, self._method)
        self.names: set[str] = set()

    def __enter__(self) -> _Hooked:
        original, names = self._original, self.names

        def hooked(launched: Any, *arguments: Any, **options: Any) -> Any:
            names.add(str(launched.fn.__name__))
            return original(launched, *arguments, **options)

        setattr(self._owner, self._method, hooked)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self._owner, self._method, self._original)


def _launched(module: Any, new_model: Any, device: str) -> tuple[bool, set[str]]:
    """Whether kernels were launched in both modes, and their names."""
    torch.manual_seed(42)
    inputs = _inputs(module, device)
    found: list[set[str]] = []
    for mode in (torch.inference_mode, torch.enable_grad):
        with mode():
            new_model(*inputs)
            with _Hooked() as hooked:
                new_model(*inputs)
                _synchronise(device)
            found.append(hooked.names)
    return all(found), found[0] | found[1]


def _mean_ms(module: Any, model: Any, device: str, trials: int) -> float:
    torch.manual_seed(42)
    inputs = _inputs(module, device)
    for _ in range(WARM_UPS):
        model(*inputs)
        _synchronise(device)
    times = []
    for _ in range(trials):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            model(*inputs)
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            began = time.perf_counter()
            model(*inputs)
            times.append(1000 * (time.perf_counter() - began))
    return float(f"{sum(times) / len(times):.3g}")


def _profile(module: Any, new_model: Any, names: set[str], trials: int) -> dict[str, float]:
    """Coverage by names: rows of the profile with device time, operators and kernels alike."""
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(42)
    inputs = _inputs(module, "cuda")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
    ) as profiler:
        torch.ones(1024, device="cuda").sum()
        for _ in range(min(PROFILED_CALLS, trials)):
            new_model(*inputs)
        torch.cuda.synchronize()
    rows = [row for row in profiler.key_averages() if row.device_time_total > 0]
    kernels = [row for row in rows if str(row.device_type).endswith("CUDA")]
    own = [
        row
        for row in rows
        if any(name.lower() in row.key.lower() or row.key.lower() in name.lower() for name in names)
    ]
    return {
        "num_custom_kernels": len(own),
        "num_total_kernels": len(rows),
        "custom_kernel_cuda_time_in_profiling_us": sum(row.device_time_total for row in own),
        "total_kernel_run_time_in_profiling_us": sum(
            row.device_time_total + row.cpu_time_total for row in rows
        ),
        "own_kernels_us": sum(row.device_time_total for row in kernels if row in own),
        "all_kernels_us": sum(row.device_time_total for row in kernels),
    }


def _take(lock: str) -> None:
    """Have the device alone until this process ends."""
    fcntl.flock(os.open(lock, os.O_RDWR), fcntl.LOCK_EX)


def _checked(task: dict[str, Any], device: str, trials: int, lock: str) -> dict[str, Any]:
    """The server's answer to the task."""
    module: dict[str, Any] = {}
    exec(compile(task["reference"], "reference", "exec"), module)
    arguments = module["get_init_inputs"]()
    if task["candidate"] is None:
        model = _model(module["Model"], arguments, device)
        _take(lock)
        return {"reference_runtime": _mean_ms(module, model, device, trials)}
    found: dict[str, Any] = {
        "compiled": False,
        "correctness": False,
        "decoy_kernel": False,
        "kernel_runtime": -1.0,
    }
    try:
        candidate = _loaded(task["candidate"])
        if device == "cuda":
            torch.zeros(1, device=device)
        _take(lock)
        model = _model(module["Model"], arguments, device)
        new_model = _model(candidate.ModelNew, arguments, device)
    except Exception as error:  # noqa: BLE001 (a result there, too)
        return {**found, "error": f"{type(error).__name__}: {error}"}
    found["compiled"] = True
    try:
        found["correctness"] = _correct(module, model, new_model, device)
    except Exception as error:  # noqa: BLE001
        return {**found, "error": f"{type(error).__name__}: {error}"}
    return _timed(found, module, new_model, device, trials) if found["correctness"] else found


def _timed(
    found: dict[str, Any], module: Any, new_model: Any, device: str, trials: int
) -> dict[str, Any]:
    try:
        launched, names = _launched(module, new_model, device)
    except Exception as error:  # noqa: BLE001 (swallowed there: no decoy, and no runtime either)
        return {**found, "error": f"detection: {type(error).__name__}: {error}"}
    if not launched:
        return {**found, "decoy_kernel": True}
    try:
        found["kernel_runtime"] = _mean_ms(module, new_model, device, trials)
        if device == "cuda":
            found |= _profile(module, new_model, names, trials)
            found["decoy_kernel"] = (
                found["num_custom_kernels"] == 0 and found["num_total_kernels"] > 0
            )
    except Exception as error:  # noqa: BLE001
        return {**found, "error": f"{type(error).__name__}: {error}"}
    return found


def _in_child(
    task: dict[str, Any], device: str, trials: int, lock: str, pipe: Connection, *, warm: bool
) -> None:
    """Run a task.  `warm`: call the candidate once, so that its kernels are compiled."""
    torch.set_num_threads(1)
    try:
        if warm:
            module: dict[str, Any] = {}
            exec(compile(task["reference"], "reference", "exec"), module)
            model = _model(_loaded(task["candidate"]).ModelNew, module["get_init_inputs"](), device)
            model(*_inputs(module, device))
            _synchronise(device)
            pipe.send({})
        else:
            if device == "cuda" and task["candidate"] is not None:
                from torch.profiler import ProfilerActivity, profile

                with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
                    torch.zeros(1, device=device)
            pipe.send(_checked(task, device, trials, lock))
    except BaseException as error:  # noqa: BLE001 (told to the parent)
        pipe.send(
            {
                "compiled": False,
                "correctness": False,
                "error": "".join(traceback.format_exception(error))[-500:],
            }
        )
    finally:
        pipe.close()
        os._exit(0)


def _each(
    tasks: list[dict[str, Any]], device: str, trials: int, slots: int, *, warm: bool
) -> list[dict[str, Any]]:
    """Results in the order of the tasks, a forked process for each."""
    fork = multiprocessing.get_context("fork")
    waiting, running = list(enumerate(tasks)), dict[Any, tuple[int, Any, float]]()
    found: dict[int, dict[str, Any]] = {}
    lock = f"{tempfile.gettempdir()}/device.lock"
    Path(lock).touch()
    while waiting or running:
        while waiting and len(running) < slots:
            number, task = waiting.pop(0)
            ours, theirs = fork.Pipe(duplex=False)
            child = fork.Process(
                target=_in_child, args=(task, device, trials, lock, theirs), kwargs={"warm": warm}
            )
            child.start()
            theirs.close()
            running[ours] = (number, child, time.monotonic())
        ready = wait(list(running), timeout=1.0)
        late = [
            pipe for pipe, (_, _, since) in running.items() if time.monotonic() - since > PATIENCE_S
        ]
        for pipe in {*ready, *late}:
            number, child, _ = running.pop(pipe)
            found[number] = (
                _received(pipe) if pipe in ready else {"compiled": False, "error": "timeout"}
            )
            child.kill()
            child.join()
    return [found[number] for number in range(len(tasks))]


def _received(pipe: Any) -> dict[str, Any]:
    try:
        return dict(pipe.recv())
    except EOFError:
        return {"compiled": False, "correctness": False, "error": "the process died"}


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--trials", type=int, default=100, help="timed calls")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401 (for the forked processes)

    tasks = [json.loads(line) for line in sys.stdin]
    device, trials, slots = arguments.device, arguments.trials, arguments.slots
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # also of the forked processes, which remove nothing
        if device == "cuda":
            candidates = [task for task in tasks if task["candidate"] is not None]
            _each(candidates, device, trials, slots, warm=True)
        results = _each(tasks, device, trials, slots, warm=False)
    for task, result in zip(tasks, results, strict=True):
        print(json.dumps({"id": task["id"], **result}), flush=True)


if __name__ == "__main__":
    main()
