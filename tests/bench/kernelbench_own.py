"""KernelBench's own evaluation of problems against themselves, from a checkout, for
comparison with Assay's.

    python -m tests.bench.kernelbench_own KERNELBENCH 1/1 2/4     # a line of JSON a problem

`run` starts that as a process of its own, and anew where it ends by force or takes longer than
`PATIENCE_S` for a problem.  5 correctness and 100 timed trials, events, fp32.  Imports of
KernelBench that it does not use for this (clients of models, .env files, progress bars) are
replaced where they are not installed.
"""

import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from app.domain import kernelbench, problem_check
from app.domain.problem import Problem
from workers.backends.support import import_hook
from workers.protocol import pretrained

PATIENCE_S = 240.0
"""For one problem, in seconds."""

TRIALS = {"num_correct_trials": 5, "num_perf_trials": 100}

_MARK = "kernelbench_own "
"""Begins the lines that count: KernelBench prints, too."""


class _BaseModel:
    """For pydantic's, where it is not installed: fields have the class's values, or
    those of the call.
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(
            {"metadata": {}, "runtime_stats": {}, "ref_runtime_stats": {}} | fields
        )


def _absent(*_: object, **__: object) -> None:
    return None


STUBS: dict[str, dict[str, Any]] = {
    "dotenv": {"load_dotenv": _absent},
    "openai": {"OpenAI": _absent},
    "litellm": {"completion": _absent},
    "requests": {},
    "tqdm": {"tqdm": lambda values, **_: values},
    "pydantic": {"BaseModel": _BaseModel},
}


def package(directory: Path) -> Any:
    """`kernelbench.eval` of the checkout."""
    for name, attributes in STUBS.items():
        try:
            importlib.import_module(name)
        except ImportError:
            stub = types.ModuleType(name)
            stub.__spec__ = ModuleSpec(name, None)  # torch asks whether tqdm is there
            stub.__dict__.update(attributes)
            sys.modules[name] = stub
    os.environ["EVALUATION_DEVICE"] = "cuda:0"
    import_hook.once_imported("transformers", pretrained.offline)  # level 4, as in our processes
    sys.path.insert(0, str(directory / "src"))
    return importlib.import_module("kernelbench.eval")


def evaluated(own: Any, problem: Problem) -> dict[str, Any]:
    """One problem: seconds, its result, and the most memory that it took of the device."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    source = problem.reference.decode()
    began = time.perf_counter()
    try:
        result = own.eval_kernel_against_ref(
            source,
            problem_check.identity(problem.reference).decode(),
            measure_performance=True,
            backend="cuda",
            device=torch.device("cuda", 0),
            **TRIALS,
        )
        said = {
            "correct": bool(result and result.correctness),
            "speedup": (
                result.ref_runtime / result.runtime
                if result and (result.runtime or 0) > 0
                else None
            ),
            "error": (
                {
                    name: str(value)[:200]
                    for name, value in result.metadata.items()
                    if "error" in name
                }
                if result
                else "no result"
            ),
        }
    except Exception as error:  # noqa: BLE001 (a problem that it cannot do is a row)
        said = {
            "correct": False,
            "speedup": None,
            "error": f"{type(error).__name__}: {error}"[:200],
        }
    return {
        "name": problem.name,
        "level": problem.level,
        "seconds": time.perf_counter() - began,
        "peak_bytes": torch.cuda.max_memory_reserved(),
        **said,
    }


def run(directory: Path, problems: list[Problem]) -> dict[str, Any]:
    """Rows and a summary.  Seconds are those of the evaluations, without starting
    Python and importing torch.
    """
    rows: list[dict[str, Any]] = []
    files = {(each.level, each.name): key for key, each in _known(directory).items()}
    keys = [files[problem.level, problem.name] for problem in problems]
    while len(rows) < len(keys):
        rows += _series(directory, keys[len(rows) :])
    seconds = [row["seconds"] for row in rows]
    return {
        "rows": rows,
        "problems": len(rows),
        "correct": sum(row["correct"] for row in rows),
        "seconds": sum(seconds),
        "per_minute": 60 * len(rows) / max(sum(seconds), 1e-9),
        "p50_s": statistics.median(seconds) if rows else None,
    }


def _known(directory: Path) -> dict[tuple[int, int], Problem]:
    return {
        key: kernelbench.problem(path, key[0])
        for key, path in kernelbench.problem_files(directory).items()
    }


def _series(directory: Path, keys: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Rows of one process, at least one: the last is of the problem that ended it,
    where it did not reach the end.
    """
    names = [f"{level}/{number}" for level, number in keys]
    command = [sys.executable, "-m", "tests.bench.kernelbench_own", str(directory), *names]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: Queue[str | None] = Queue()
    threading.Thread(target=_pump, args=(process, lines), daemon=True).start()
    rows: list[dict[str, Any]] = []
    why, answered_s = "the process ended", time.perf_counter()
    while len(rows) < len(keys):
        try:
            line = lines.get(timeout=PATIENCE_S + (60 if not rows else 0))
        except Empty:
            why = f"no answer in {PATIENCE_S:g} s"
            break
        if line is None:
            break
        if line.startswith(_MARK):
            rows.append(json.loads(line.removeprefix(_MARK)))
            answered_s = time.perf_counter()
            row = rows[-1]
            said = (
                f"{row['correct']} {row['speedup']} peak {row['peak_bytes'] / 1e9:.1f} GB"
                f" {row['error'] or ''}"
            )
            print(
                f"own L{row['level']}/{row['name'][:44]:46} {row['seconds']:7.1f} s {said}",
                flush=True,
            )
    process.kill()
    process.wait()
    if len(rows) < len(keys):
        level, number = keys[len(rows)]
        seconds = time.perf_counter() - answered_s
        rows.append(
            {
                "name": str(number),
                "level": level,
                "seconds": seconds,
                "peak_bytes": None,
                "correct": False,
                "speedup": None,
                "error": why,
            }
        )
        print(f"own L{level}/{number}: {why}", flush=True)
    return rows


def _pump(process: "subprocess.Popen[str]", lines: "Queue[str | None]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def main() -> None:
    """See above."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("KernelBench evaluates on a GPU, and torch sees none")
    directory, names = Path(sys.argv[1]), sys.argv[2:]
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    own = package(directory)
    files = kernelbench.problem_files(directory)
    for name in names:
        level, _, number = name.partition("/")
        problem = kernelbench.problem(files[int(level), int(number)], int(level))
        print(_MARK + json.dumps(evaluated(own, problem)), flush=True)


if __name__ == "__main__":
    main()
