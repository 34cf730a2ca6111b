"""Evaluators of one GPU, several at a time, and the candidates that they evaluate."""

import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any
from uuid import uuid4

import torch

from app.domain.evaluation import Evaluation, EvaluationError, Status
from app.domain.job import Job, JobOptions
from app.domain.verdict import Label, Subject
from app.judge import judge
from tests import zoo
from workers.referee.cancellation import Cancellation
from workers.referee.measure import measure
from workers.referee.resources import Resources

SMALL = (
    "row_softmax",
    "layer_norm",
    "scaled_add",
    "rms_norm",
    "swiglu_half",
    "linear_gelu",
    "moments",
    "transposed_scale",
)
"""Problems with a small honest Triton kernel."""


BUDGET_S = 0.08
"""For timing, of the device to itself: six groups, mostly."""

STOPPING_S, ENDING_S = 20.0, 10.0
"""Seconds after an interruption until all processes are ended by force, and from then until this
process is.
"""

AGAIN_S = 1.0
"""Seconds within which a second signal is the first one again: timeout(1) signals the process and
then its group.
"""


# One evaluation
# --------------------------------------------------------------------------------------------------
def job(spec: dict[str, Any]) -> Job:
    options = JobOptions(
        timing_budget_s=spec.get("budget", BUDGET_S),
        call_timeout_s=spec.get("timeout", 15.0),
        deadline_s=max(60.0, 2 * spec.get("timeout", 15.0)),
        profile=spec.get("profile", "launches"),
        protocol=spec.get("protocol", "assay"),
        cases=spec.get("cases", False),
        device_time=spec.get("device_time", False),
        variants=spec.get("variants", True),
    )
    reference, candidate = (
        spec["reference"].encode(),
        spec["candidate"].encode("utf-8", "surrogateescape"),
    )
    return Job(
        job_id=uuid4(),
        reference=reference,
        candidate=candidate,
        backend=spec["backend"],
        options=options,
    )


def _row(
    spec: dict[str, Any], evaluated: Job, evaluation: Evaluation, seconds: float
) -> dict[str, Any]:
    verdict = judge(
        Subject(
            evaluation=evaluation,
            backend=spec["backend"],
            candidate=evaluated.candidate,
            reference=evaluated.reference,
        )
    )
    timing = evaluation.timing
    return {
        "name": spec["name"],
        "seconds": seconds,
        "status": str(evaluation.status),
        "label": str(verdict.label),
        "found": sorted({finding.detector for finding in verdict.findings}),
        "accused_by": sorted(
            {each.detector for each in verdict.findings if each.label != Label.CLEAN}
        ),
        "error": (
            f"{evaluation.error.kind}: {evaluation.error.message[:200]}"
            if evaluation.error
            else None
        ),
        "timing": asdict(timing) if timing else None,
        "coverage": evaluation.profile.coverage_time if evaluation.profile else None,
        "device_us": evaluation.profile.device_us if evaluation.profile else None,
        "profile": evaluation.profile.source if evaluation.profile else None,
        "profiler_error": evaluation.profile.profiler_error if evaluation.profile else None,
        "kernels": (
            [asdict(kernel) for kernel in evaluation.profile.kernels[:8]]
            if evaluation.profile
            else []
        ),
        "ablation": asdict(evaluation.ablation) if evaluation.ablation else None,
        "calls": evaluation.correctness.calls if evaluation.correctness else 0,
        "stage_ms": evaluation.stage_ms,
    }


def ended(futures: Iterable[Future[Any]]) -> Iterator[Any]:
    """Results as they come, without those of evaluations that were stopped or not begun."""
    for future in as_completed(futures):
        try:
            found = future.result()
        except CancelledError:
            continue
        if found is not None:
            yield found


class Fleet:
    """The referee of a device with some evaluations in flight, each in a thread of
    its own, as in a worker.
    """

    def __init__(self, device_class: str, slots: int, *, kept_bytes: int = 0) -> None:
        torch.set_num_threads(1)
        self.slots = slots
        self.interrupted = False
        """True once a signal has asked this process to end."""
        self._interrupted_at = 0.0
        self._late = False
        """True while the time limit of a figure has passed."""
        self._closed = threading.Event()
        self._changing = threading.Lock()
        self._in_flight: set[Cancellation] = set()
        # Benches of several GPUs of one host at a time have cores of their own, as workers have.
        index = int(os.environ.get("CUDA_VISIBLE_DEVICES") or 0)
        self.host = Resources(device_class, "bench", index, slots=slots, kept_bytes=kept_bytes)
        self.environment = asdict(self.host.wait_ready())

    def run(self, specs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], float]:
        """Rows of the evaluations that ended, in the order of the specs, and seconds from the begin
        to the end of the last.  `index` of a row: of its spec; `ended_s`: seconds from the begin.
        """
        began = time.perf_counter()
        rows = [{"ended_s": row.pop("ended") - began, **row} for row in self.each(specs)]
        return rows, max((row["ended_s"] for row in rows), default=0.0)

    def each(self, specs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows of the evaluations that ended, in the order of the specs, as they come."""
        with ThreadPoolExecutor(self.slots) as pool:
            futures = [pool.submit(self._one, *each) for each in enumerate(specs)]
            for future in futures:
                yield from ended([future])

    def _one(self, index: int, spec: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        asked = job(spec)
        evaluation = self.evaluated(asked)
        now = time.perf_counter()
        return {**_row(spec, asked, evaluation, now - began), "index": index, "ended": now}

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Begin no evaluation after so many seconds, and cancel those in flight then."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            self._late = False

    def _stop(self) -> None:
        """Begin no further evaluation, and cancel those in flight."""
        self._late = True
        with self._changing:
            in_flight = tuple(self._in_flight)
        for each in in_flight:
            each.request()

    def end_on_signals(self) -> None:
        """Let SIGINT and SIGTERM stop all evaluations, so that a bench prints its rows so far; a
        second signal ends it at once.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            if time.monotonic() > self._interrupted_at + AGAIN_S:
                os._exit(128 + number)  # and with it all its processes
            return
        self.interrupted, self._interrupted_at = True, time.monotonic()
        # In threads: this one may hold the lock that the other evaluations' ends wait for.
        for work in (self._stop, self._end_by_force):
            threading.Thread(target=work, daemon=True).start()

    def _end_by_force(self) -> None:
        """End the processes that evaluations wait for, and at last this one."""
        if not self._closed.wait(STOPPING_S):
            self.host.close()
            if not self._closed.wait(ENDING_S):
                os._exit(1)

    def evaluated(self, job: Job) -> Evaluation:
        """The evaluation; a fault of the referee gives one, too: `invalid`, of kind `our_fault`.

        Raises CancelledError if it was stopped (`within`, `end_on_signals`).
        """
        cancellation = Cancellation()
        with self._changing:
            self._in_flight.add(cancellation)
        try:
            if self._late or self.interrupted:
                raise CancelledError
            found = self._measured(job, cancellation)
            if cancellation.requested or self.interrupted:
                raise CancelledError
            return found
        finally:
            with self._changing:
                self._in_flight.remove(cancellation)

    def _measured(self, job: Job, cancellation: Cancellation) -> Evaluation:
        try:
            found, _ = measure(job, self.host, cancellation)
            # On the CPU; a GPU's processes end meanwhile.
            self.host.candidates.recycle(job.options.memory_bytes)
            return found
        except Exception as error:  # noqa: BLE001 (the others of a figure go on)
            if not cancellation.requested:
                traceback.print_exc()
            assert self.host.environment is not None
            fault = EvaluationError(
                kind="our_fault", message=f"{type(error).__name__}: {error}", log=""
            )
            return Evaluation(
                status=Status.INVALID, error=fault, environment=self.host.environment, seed=""
            )

    def close(self) -> None:
        self.host.close()
        self._closed.set()


# Candidates
# --------------------------------------------------------------------------------------------------
def spec_of(case: zoo.Case, **changes: Any) -> dict[str, Any]:
    candidate = case.candidate.decode("utf-8", "surrogateescape")
    return {
        "name": case.name,
        "reference": case.reference.decode(),
        "candidate": candidate,
        "backend": case.backend,
        "cases": case.is_by_cases,
        **changes,
    }


def small(count: int) -> list[dict[str, Any]]:
    """Different sources: each is compiled afresh, because no process sees another's cache."""
    cases = {case.name: case for case in zoo.cases()}
    chosen = [cases[f"honest/{name}_triton"] for name in SMALL]
    specs = []
    for index in range(count):
        spec = spec_of(chosen[index % len(chosen)])
        specs.append({**spec, "candidate": f"{spec['candidate']}\n# variant {index}\n"})
    return specs
