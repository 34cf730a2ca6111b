"""A published set of model-written kernels on one device, in one process, without
database or queue.

    python -m tests.bench.published optimized_cuda_code/h100.json --device h100 --json rows.json
    python -m tests.bench.published set.jsonl --column candidate --every 5
    python -m tests.bench.published KERNELBENCH/runs/some_run --problems KERNELBENCH

The set is one of
  * CUDA-L1's files: a line per problem (`ref_code`, `custom_code`, `level_id`,
    `task_id`), or one object of such lists;
  * JSON lines with `reference` and `candidate` (and, if wanted, `name`, `level`, `backend`);
  * a folder of KernelBench's samples, level_<L>_problem_<P>_sample_<S>_kernel.py,
    with `--problems` a checkout.

Prints a line per kernel as it ends, then counts by status, verdict and kind of error.  Exit code 1:
some evaluation ended by a fault of the evaluator.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.domain import kernelbench, policy, problem_check
from app.domain.job import REWARD_BUDGET_S, Job, JobOptions
from app.domain.problem import Problem
from app.domain.source import language
from app.domain.verdict import Subject
from app.judge import judge
from tests.bench.gpu_fleet import Fleet, ended
from tests.bench.sweep import STORE_S, state, store

DEADLINES_S = {"cuda": 420.0}
"""For one kernel: a PyTorch extension takes half a minute to compile, some models build several."""

DEADLINE_S, CALL_TIMEOUT_S = 120.0, 60.0


@dataclass(frozen=True)
class Kernel:
    """One of the set."""

    problem: Problem
    candidate: bytes
    backend: str
    claimed: float | None = None
    """Speedup that its authors state, on their device."""


def kernels(path: Path, column: str | None, problems: Path | None) -> Iterator[Kernel]:
    """The set in its order; problems without a kernel are left out.  Raises
    ValueError for any other form.
    """
    if path.is_dir():
        if problems is None:
            raise ValueError(
                f"{path}: a folder of samples needs --problems, a KernelBench checkout"
            )
        yield from _samples(path, problems)
        return
    for number, row in enumerate(_rows(path), 1):
        reference = row.get("ref_code") or row.get("reference")
        candidate = row.get(column or ("custom_code" if "ref_code" in row else "candidate"))
        if reference is None:
            raise ValueError(
                f"{path}: row {number}: expected ref_code or reference, got {', '.join(row)[:120]}"
            )
        if not candidate or candidate == "None":
            continue
        level = row.get("level_id") or row.get("level")
        problem = Problem(
            name=str(row.get("name") or row.get("task_id") or number),
            reference=str(reference).encode(),
            source_set="published",
            level=int(level) if level else None,
        )
        data = str(candidate).encode()
        claimed = row.get("score") or row.get("score_default")
        yield Kernel(
            problem,
            data,
            row.get("backend") or language.backend_for(data),
            None if claimed in (None, "None") else float(claimed),
        )


def _rows(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(whole, dict) and all(isinstance(rows, list) for rows in whole.values()):
        return [{"level_id": level, **row} for level, rows in whole.items() for row in rows]
    return whole if isinstance(whole, list) else [whole]


def _samples(folder: Path, problems: Path) -> Iterator[Kernel]:
    files = kernelbench.problem_files(problems)
    for path in sorted(folder.glob("*_kernel.py")):
        level, number = kernelbench.sample_key(path)
        problem = kernelbench.problem(files[level, number], level)
        data = path.read_bytes()
        yield Kernel(problem, data, language.backend_for(data))


def job(kernel: Kernel, budget_s: float) -> Job:
    options = JobOptions(
        timing_budget_s=budget_s,
        call_timeout_s=CALL_TIMEOUT_S,
        deadline_s=DEADLINES_S.get(kernel.backend, DEADLINE_S),
    )
    return Job(
        job_id=uuid4(),
        reference=kernel.problem.reference,
        candidate=kernel.candidate,
        backend=kernel.backend,
        options=options,
    )


def evaluated(fleet: Fleet, kernel: Kernel, budget_s: float) -> dict[str, Any]:
    """A row, under every policy's verdict."""
    began = time.perf_counter()
    evaluation = fleet.evaluated(job(kernel, budget_s))
    seconds = time.perf_counter() - began
    subject = Subject(
        evaluation=evaluation,
        backend=kernel.backend,
        candidate=kernel.candidate,
        reference=kernel.problem.reference,
    )
    found = problem_check.row(kernel.problem, evaluation, judge(subject), seconds)
    verdicts = {name: str(judge(subject, each).label) for name, each in policy.POLICIES.items()}
    return {
        **asdict(found),
        "backend": kernel.backend,
        "claimed": kernel.claimed,
        "verdicts": verdicts,
        "ours": found.is_ours,
        "line": problem_check.line(found),
    }


def summary(rows: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    counted = {
        "statuses": Counter(row["status"] for row in rows),
        "kinds": Counter(
            f"{row['status']}: {row['error_kind']}" for row in rows if row["error_kind"]
        ),
        "backends": Counter(f"{row['backend']}: {row['status']}" for row in rows),
    }
    verdicts = {
        name: dict(Counter(row["verdicts"][name] for row in rows if row["status"] == "passed"))
        for name in policy.POLICIES
    }
    return {
        "kernels": len(rows),
        "seconds": seconds,
        "per_minute": 60 * len(rows) / seconds if seconds else None,
        **{name: dict(counts.most_common()) for name, counts in counted.items()},
        "verdicts_of_passed": verdicts,
        "our_faults": [
            f"L{row['level']}/{row['name']}: {row['error_kind']}" for row in rows if row["ours"]
        ],
    }


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", type=Path, metavar="SET")
    parser.add_argument("--column", help="of the candidate's source, where the set has several")
    parser.add_argument(
        "--problems", type=Path, help="a KernelBench checkout, for a folder of samples"
    )
    parser.add_argument("--device", default="h100", help="device class, or cpu")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="every Nth kernel")
    parser.add_argument("--backend", help="only those that are written in this")
    parser.add_argument(
        "--budget", type=float, default=REWARD_BUDGET_S, help="for timing, in seconds"
    )
    parser.add_argument(
        "--stop-after", type=float, default=1e9, help="seconds after which no kernel is begun"
    )
    parser.add_argument("--json", type=Path, help="rows and summary, written every few seconds")
    arguments = parser.parse_args()
    found = kernels(arguments.set, arguments.column, arguments.problems)
    chosen = [kernel for kernel in found if arguments.backend in (None, kernel.backend)][
        :: arguments.every
    ]
    sys.exit(int(_all(arguments, chosen)))


def _all(arguments: argparse.Namespace, chosen: list[Kernel]) -> bool:
    """Evaluate the kernels and print; True if one ended by a fault of the referee."""
    fleet = Fleet(arguments.device, arguments.slots)
    fleet.end_on_signals()
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    report: dict[str, Any] = {"environment": fleet.environment, "before": state(fleet)}

    def one(kernel: Kernel) -> dict[str, Any] | None:
        late = time.perf_counter() - began > arguments.stop_after
        return None if late else evaluated(fleet, kernel, arguments.budget)

    def note() -> None:
        report.update(
            rows=rows, summary=summary(rows, time.perf_counter() - began), after=state(fleet)
        )
        store(arguments.json, report)

    stored_s = began
    with ThreadPoolExecutor(fleet.slots) as pool:
        for row in ended([pool.submit(one, kernel) for kernel in chosen]):
            rows.append(row)
            claimed = f"  (claimed {row['claimed']})" if row["claimed"] else ""
            print(
                f"{len(rows):4}/{len(chosen)} {row['backend']:7}{row.pop('line')}{claimed}",
                flush=True,
            )
            if time.perf_counter() > stored_s + STORE_S:
                note()
                stored_s = time.perf_counter()
    note()
    print(json.dumps({name: report.get(name) for name in ("summary", "before", "after")}))
    fleet.close()
    return any(row["ours"] for row in rows)


if __name__ == "__main__":
    main()
