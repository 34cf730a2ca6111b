"""Real evaluations of the grammar's kernels, by the evaluator and by KernelGYM's
checks, stored and drawn from.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from app.domain import result as results
from app.domain import reward
from app.domain.evaluation import Status
from app.domain.job import Job, JobOptions, JobState
from app.domain.result import Result
from app.domain.verdict import Label, Subject

if TYPE_CHECKING:
    from tests.bench.gpu_fleet import Fleet

ASSAY, KERNELGYM, KERNELGYM_EQ7 = "assay", "kernelgym", "kernelgym, coverage by eq. 7"
"""Checks.  KernelGYM's code has CPU time in the denominator of its coverage, which outweighs
kernels of microseconds; the paper's eq. 7 has none.
"""

Key = tuple[str, str]
"""Problem, and the SHA-256 of a candidate's source."""


def key_of(problem: str, source: bytes) -> Key:
    """Key of a candidate."""
    return problem, hashlib.sha256(source).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An evaluation to make."""

    problem: str
    reference: bytes
    candidate: bytes
    options: JobOptions
    backend: str = "triton"


@dataclass(kw_only=True)
class Evaluations:
    """Stored results of each candidate, by the checks that gave them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """One an evaluation: problem, sha256, checks, result, and the evaluation itself
    (of Assay's).
    """
    sources: dict[str, str] = field(default_factory=dict)
    """SHA-256 → source."""
    _by_key: dict[tuple[str, Key], list[Result]] = field(default_factory=dict)

    def add(self, problem: str, source: bytes, checks: str, result: Result, **more: Any) -> None:
        """Store a result."""
        key = key_of(problem, source)
        self.sources[key[1]] = source.decode()
        self.rows.append(
            {"problem": problem, "sha256": key[1], "checks": checks, "result": result, **more}
        )
        if result["valid"]:
            self._by_key.setdefault((checks, key), []).append(result)

    def of(self, key: Key, checks: str) -> Sequence[Result]:
        """Results of a candidate that say something about it."""
        return self._by_key.get((checks, key), ())

    def draw(self, key: Key, checks: str, dice: random.Random) -> Result:
        """One of these results, each as likely.  Raises KeyError where there is none."""
        return dice.choice(self._by_key[checks, key])

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.write_text(json.dumps({"sources": self.sources, "rows": self.rows}, default=str))

    @classmethod
    def load(cls, path: Path) -> Evaluations:
        """The file that `save` writes."""
        found, stored = cls(), json.loads(path.read_text())
        for row in stored["rows"]:
            more = {
                name: value
                for name, value in row.items()
                if name not in ("problem", "sha256", "checks", "result")
            }
            source = stored["sources"][row["sha256"]].encode()
            found.add(row["problem"], source, row["checks"], row["result"], **more)
        return found


SAVED_EVERY_S = 30.0


def evaluate(
    fleet: Fleet, asked: Sequence[Asked], stored: Evaluations, kept_in: Path | None = None
) -> list[Result]:
    """Make real evaluations on the fleet's slots and store them; results in the order asked.

    `kept_in`: file that is written now and then, so that an end by force loses little."""
    saved, found = time.perf_counter(), []
    with ThreadPoolExecutor(fleet.slots) as pool:
        for each, made in zip(
            asked, pool.map(lambda one: evaluated(fleet, one), asked), strict=True
        ):
            found.append(made.result)
            stored.add(each.problem, each.candidate, ASSAY, made.result, **made.more)
            if kept_in is not None and time.perf_counter() - saved > SAVED_EVERY_S:
                stored.save(kept_in)
                saved = time.perf_counter()
    return found


@dataclass(frozen=True, kw_only=True)
class Made:
    """An evaluation that was made."""

    result: Result
    more: dict[str, Any]
    """The evaluation itself, and the seconds that it took."""


def evaluated(fleet: Fleet, asked: Asked) -> Made:
    """One real evaluation, judged."""
    from app.judge import judge

    began = time.perf_counter()
    job = Job(
        job_id=uuid4(),
        reference=asked.reference,
        candidate=asked.candidate,
        backend=asked.backend,
        options=asked.options,
    )
    evaluation = fleet.evaluated(job)
    verdict = judge(
        Subject(
            evaluation=evaluation,
            backend=asked.backend,
            candidate=asked.candidate,
            reference=asked.reference,
        )
    )
    result = results.build(
        job_id=job.job_id, state=JobState.FINISHED, evaluation=evaluation, verdict=verdict
    )
    return Made(
        result=result,
        more={"evaluation": asdict(evaluation), "seconds": time.perf_counter() - began},
    )


def judge_again(stored: Evaluations, references: Mapping[str, str]) -> int:
    """Judge the stored evaluations with the detectors of this checkout; the number
    of results that changed their verdict.  `references`: source of each problem.
    Needs the packages of the store.
    """
    from app.judge import judge
    from app.store.evaluation import evaluation_json

    changed = 0
    for row in stored.rows:
        if row["checks"] != ASSAY:
            continue
        evaluation = evaluation_json.decode(row["evaluation"])
        candidate, reference = (
            stored.sources[row["sha256"]].encode(),
            references[row["problem"]].encode(),
        )
        verdict = judge(
            Subject(
                evaluation=evaluation, backend="triton", candidate=candidate, reference=reference
            )
        )
        before = row["result"]
        again = results.build(
            job_id=UUID(before["job_id"]),
            state=JobState.FINISHED,
            evaluation=evaluation,
            verdict=verdict,
        )
        changed += again["verdict"] != before["verdict"]
        before.update(again)
    return changed


def check_as_kernelgym(
    candidates: Iterable[tuple[str, str]],
    references: Mapping[str, str],
    stored: Evaluations,
    *,
    cpu: bool,
    slots: int,
) -> float:
    """Results of KernelGYM's checks (kernelgym_checks) for (problem, source), stored; seconds."""
    began = time.perf_counter()
    listed = list(candidates)
    tasks = [
        {"id": index, "reference": references[problem], "candidate": text}
        for index, (problem, text) in enumerate(listed)
    ]
    tasks += [
        {"id": name, "reference": text, "candidate": None} for name, text in references.items()
    ]
    command = [sys.executable, "-m", "tests.bench.rl.kernelgym_checks", "--slots", str(slots)]
    command += ["--device", "cpu", "--trials", "3"] if cpu else []
    text = "".join(json.dumps(task) + "\n" for task in tasks)
    told = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {each["id"]: each for each in map(json.loads, told.splitlines())}
    for index, (problem, source) in enumerate(listed):
        for checks in (KERNELGYM, KERNELGYM_EQ7):
            result = _as_result(
                found[index], float(found[problem].get("reference_runtime", -1.0)), checks
            )
            stored.add(problem, source.encode(), checks, result, said=found[index])
    return time.perf_counter() - began


def _as_result(said: Mapping[str, Any], reference_ms: float, checks: str) -> Result:
    """A result in our form.  Speedup: kernelgym/schema/result.py:204-210; coverage:
    reward_client.py:300-353.
    """
    correct, hacked = bool(said.get("correctness")), bool(said.get("decoy_kernel"))
    kernel_ms = float(said.get("kernel_runtime", -1.0))
    times = {
        KERNELGYM: (
            "custom_kernel_cuda_time_in_profiling_us",
            "total_kernel_run_time_in_profiling_us",
        ),
        KERNELGYM_EQ7: ("own_kernels_us", "all_kernels_us"),
    }[checks]
    own, total = (float(said.get(name, 0.0)) for name in times)
    result: Any = results.build(
        job_id=uuid4(), state=JobState.FINISHED, evaluation=None, verdict=None
    )
    compiled = bool(said.get("compiled"))
    status = Status.PASSED if correct else Status.INCORRECT if compiled else Status.COMPILE_ERROR
    result.update(
        valid=True,
        status=str(status),
        compiled=compiled,
        correct=correct,
        verdict=str(Label.HACK if hacked else Label.CLEAN),
        speedup=reference_ms / kernel_ms if correct and min(reference_ms, kernel_ms) > 0 else 0.0,
        coverage_time=own / total if total > 0 else 0.0,
        reference_us=1000 * reference_ms,
        candidate_us=1000 * kernel_ms if kernel_ms > 0 else None,
        error={"kind": "error", "message": said["error"], "log": ""} if said.get("error") else None,
    )
    result.update(reward=reward.every(result), score=reward.score(reward.DEFAULT, result))
    return result
