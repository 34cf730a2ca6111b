"""Every problem of a KernelBench checkout against itself, on one device, in one
process, without database or queue.

    python -m tests.bench.sweep KERNELBENCH --device h100 --slots 8 --levels 1,2,3 --json rows.json
    python -m tests.bench.sweep KERNELBENCH --device h100 --slots 1 --only 1/19,4/7 --ballast 62
    python -m tests.bench.sweep KERNELBENCH --device h100 --slots 8 --every 10 --own 40

Prints a line a problem as it ends and a summary.  `--json FILE` is written every few seconds, so
that an end by force loses few, and `assay problems record FILE` keeps the rows for the pages.
`--own N` times KernelBench's own eval_kernel_against_ref on N of the problems, alone on the
device, before the sweep.  Needs torch, triton and numpy, nothing else of this project's
dependencies; level 4 needs transformers.  Exit code 1: something else came out than passed, clean,
or `invalid` for a reason that is the problem's.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from app.domain import kernelbench, problem_check
from app.domain.evaluation import PROTOCOL
from app.domain.job import REWARD_BUDGET_S, Job, JobOptions
from app.domain.problem import Problem
from app.domain.verdict import Subject
from app.judge import judge
from tests.bench import kernelbench_own
from tests.bench.gpu_fleet import Fleet, ended

GB = 10**9

STORE_S = 5.0
"""How often rows are written at the most: this process is the referee's, which has
better things to do.
"""


def chosen(
    directory: Path, levels: set[int], only: list[tuple[int, int]], every: int
) -> list[Problem]:
    """Problems in the order of `only`, else mixed.  Raises CheckoutError."""
    files = kernelbench.problem_files(directory)
    if only:
        missing = [f"{level}/{number}" for level, number in only if (level, number) not in files]
        if missing:
            raise kernelbench.CheckoutError(
                f"{directory}: there is no problem {', '.join(missing)}"
            )
        return [kernelbench.problem(files[key], key[0]) for key in only]
    keys = [key for key in files if key[0] in levels][::every]
    return problem_check.mixed([kernelbench.problem(files[key], key[0]) for key in keys])


def job(problem: Problem, options: JobOptions) -> Job:
    candidate = problem_check.identity(problem.reference, problem.entry_point)
    return Job(
        job_id=uuid4(),
        reference=problem.reference,
        candidate=candidate,
        backend=problem_check.BACKEND,
        entry_point=problem.entry_point,
        options=options,
    )


def checked(
    fleet: Fleet, problem: Problem, options: JobOptions, outside: dict[str, Any]
) -> problem_check.CheckRow:
    """Evaluate one problem; where 1.0 is outside the interval or far off, `outside`
    gets every block and kernel.
    """
    began = time.perf_counter()
    one = job(problem, options)
    evaluation = fleet.evaluated(one)
    subject = Subject(
        evaluation=evaluation, backend=one.backend, candidate=one.candidate, reference=one.reference
    )
    row = problem_check.row(
        problem, evaluation, judge(subject, problem_check.POLICY), time.perf_counter() - began
    )
    if evaluation.timing is not None and (row.is_off or not row.holds_one):
        kernels = (
            [asdict(each) for each in evaluation.profile.kernels] if evaluation.profile else []
        )
        outside[row.name] = {
            "timing": asdict(evaluation.timing),
            "kernels": kernels,
            "ended_s": time.monotonic(),
        }
    return row


def rows(
    fleet: Fleet,
    problems: list[Problem],
    options: JobOptions,
    stop_after_s: float,
    outside: dict[str, Any],
) -> Iterator[problem_check.CheckRow]:
    """Rows, as problems end.  After `stop_after_s` none is begun."""
    with ThreadPoolExecutor(fleet.slots) as pool:
        futures: list[Future[problem_check.CheckRow]] = [
            pool.submit(checked, fleet, each, options, outside) for each in problems
        ]
        timer = threading.Timer(stop_after_s, lambda: [future.cancel() for future in futures])
        timer.daemon = True
        timer.start()
        yield from ended(futures)
        timer.cancel()


def state(fleet: Fleet) -> dict[str, Any]:
    """State of this process and its device, to see growth: descriptors, resident
    memory, processes, device memory.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    found: dict[str, Any] = {
        "descriptors": _count("/proc/self/fd"),
        "resident_mb": pages * os.sysconf("SC_PAGE_SIZE") >> 20,
        "processes": _count("/proc"),
        "unburied": fleet.host.candidates.unreaped,
    }
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        found |= {
            "device_used_gb": round((total - free) / GB, 2),
            "device_gb": round(total / GB, 2),
            "referee_gb": round(torch.cuda.memory_reserved() / GB, 2),
        }
    return found


def _count(folder: str) -> int:
    """Entries that are numbers."""
    return sum(path.name.isdecimal() for path in Path(folder).iterdir())


def taken(gigabytes: float) -> torch.Tensor | None:
    """Device memory that no evaluation has while this lives."""
    return torch.empty(int(gigabytes * GB), dtype=torch.uint8, device="cuda") if gigabytes else None


def pairs(text: str) -> list[tuple[int, int]]:
    """`1/19,2/3` as levels and numbers.  Raises ValueError."""
    split = [each.partition("/") for each in text.split(",")]
    return [(int(level), int(number)) for level, _, number in split]


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "directory", type=Path, metavar="KERNELBENCH", help="a checkout, or a folder with level1 …"
    )
    parser.add_argument("--device", default="h100", help="device class, or cpu")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument(
        "--levels", type=lambda text: {int(each) for each in text.split(",")}, default={1, 2, 3}
    )
    parser.add_argument(
        "--only",
        type=pairs,
        default=[],
        help="level/number,…; then --levels and --every say nothing",
    )
    parser.add_argument("--every", type=int, default=1, help="every Nth problem")
    parser.add_argument(
        "--budget", type=float, default=REWARD_BUDGET_S, help="for timing, in seconds"
    )
    parser.add_argument(
        "--device-time", action="store_true", help="also take the device-time speedup"
    )
    parser.add_argument(
        "--ballast",
        type=float,
        default=0.0,
        help="GB of device memory that this process takes first",
    )
    parser.add_argument(
        "--stop-after", type=float, default=1e9, help="seconds after which no problem is begun"
    )
    parser.add_argument(
        "--own", type=int, default=0, help="problems for KernelBench's own evaluation"
    )
    parser.add_argument(
        "--own-only", action="store_true", help="KernelBench's own evaluation alone"
    )
    parser.add_argument("--json", type=Path, help="rows and summary")
    arguments = parser.parse_args()
    problems = chosen(arguments.directory, arguments.levels, arguments.only, arguments.every)
    report: dict[str, Any] = {
        "arguments": {name: str(value) for name, value in vars(arguments).items()}
    }
    ballast = taken(arguments.ballast)
    if arguments.own:
        step = max(1, len(problems) // arguments.own)
        report["own"] = kernelbench_own.run(arguments.directory, problems[::step][: arguments.own])
        store(arguments.json, report)
    failed = False if arguments.own_only else swept(arguments, problems, report)
    del ballast
    sys.exit(int(failed))


def swept(arguments: argparse.Namespace, problems: list[Problem], report: dict[str, Any]) -> bool:
    """The sweep into the report; whether something came out that must not."""
    began = time.perf_counter()
    fleet = Fleet(arguments.device, arguments.slots, kept_bytes=int(arguments.ballast * GB))
    fleet.end_on_signals()
    report |= {"protocol": PROTOCOL, "checked_at": datetime.now(UTC).isoformat()}
    report |= {
        "environment": fleet.environment,
        "ready_s": time.perf_counter() - began,
        "before": state(fleet),
    }
    print(
        json.dumps(
            {
                "device": fleet.environment["device_name"],
                "ready_s": report["ready_s"],
                **report["before"],
            }
        )
    )
    found: list[problem_check.CheckRow] = []
    outside: dict[str, Any] = {}
    report["outside"] = outside
    options = problem_check.options(arguments.budget, device_time=arguments.device_time)
    began = stored_s = time.perf_counter()
    for row in rows(fleet, problems, options, arguments.stop_after, outside):
        found.append(row)
        print(f"{len(found):4}/{len(problems)} {problem_check.line(row)}", flush=True)
        if time.perf_counter() > stored_s + STORE_S:
            note(arguments.json, report, fleet, found, time.perf_counter() - began)
            stored_s = time.perf_counter()
    if found:
        note(arguments.json, report, fleet, found, time.perf_counter() - began)
        print(
            json.dumps(
                {"summary": report["summary"], "before": report["before"], "after": report["after"]}
            )
        )
    fleet.close()
    return any(row.outcome in ("accused", "our fault", "blamed") for row in found) or len(
        found
    ) < len(problems)


def note(
    path: Path | None,
    report: dict[str, Any],
    fleet: Fleet,
    found: list[problem_check.CheckRow],
    seconds: float,
) -> None:
    """Rows, summary and state so far, into the report and its file."""
    report |= {"rows": [asdict(each) for each in found], "after": state(fleet)}
    report["summary"] = problem_check.summary(found, seconds)
    store(path, report)


def store(path: Path | None, report: dict[str, Any]) -> None:
    if path is not None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(report, indent=1))
        part.replace(path)


if __name__ == "__main__":
    main()
