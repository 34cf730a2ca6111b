"""Calls on fresh inputs.  There is one kind of call, and every call is verified
(verification.py).
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import torch

from app.domain.output_checks import Trial
from workers.protocol import problem_spec
from workers.protocol.control_channel import Delivering
from workers.referee.comparison import correctness
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.launching_core import LaunchingCore
from workers.referee.processes.process_session import FirstCall, Session, synchronize
from workers.referee.processes.snapshot import differ, rewrite
from workers.referee.session.batches import Batch, Delivery, Times, Truth, changed
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S, Deadline
from workers.referee.session.draws import Draws
from workers.referee.session.idle_probe import IDLE_US, RESTING_S, IdleProbe
from workers.referee.session.reference_side import ReferenceFailedError, reference_side
from workers.referee.session.unchanged_inputs import require_changed
from workers.referee.session.varying_outputs import compared_with_reference
from workers.referee.session.warmed_calls import is_warmed
from workers.sandbox.confined_process import StopwatchInterface

LATER_S = 10.0
"""Seconds that a candidate on a GPU has after its first call, in addition to ten
times its calls' time so far, and never more than the deadline allows: one that hangs
keeps the device from all others.
"""

LINGER_S = 0.001
"""Longest random time in seconds that the candidate continues after it reported done, so
that a late write can show itself.  Not in timed calls: there the stopwatch freezes it,
and late writes cannot happen.
"""

TURN_US = 500.0
"""Longest time of a tiny request, in microseconds, if the device serves no other process."""

SETTLING_S = 0.1
"""Longest wait in seconds for the device to become idle after a block.  Work that continues longer
shows itself as a wrong or a late output.
"""

QUEUED_S = 2.0
"""Longest wait in seconds for work that paused processes had queued on the device."""

APART_S, YIELDS = 40.0, 3
"""Seconds for which a timer that finds the device busy waits for work that runs apart, and how
often it does that.
"""


class CallRunner(Draws):
    """The calls of one evaluation."""

    def __init__(
        self,
        reference: Session,
        candidate: Session,
        spec: problem_spec.ProblemSpec,
        seed: bytes,
        deadline: Deadline,
        device_lock: DeviceLock,
        rule: correctness.Rule = correctness.DEFAULT_RULE,
        quickest_s: float | None = None,
    ) -> None:
        """Both sessions have their arenas; `seed`: the master seed; `rule`: decides whether an
        output is right; `quickest_s`: shortest time of a call, if some were made before.

        The caller of a method that makes calls holds the device's lock.  Functions of several
        steps, or long ones, take it themselves: `first_calls.make_first`,
        `output_mapping.survey`, `variant_calls.try_variants`.
        """
        super().__init__(reference, candidate, spec, seed, device_lock, rule)
        self.deadline = deadline
        self.stopwatch: StopwatchInterface | None = None
        """The process that measures, during timed calls."""
        self.core: LaunchingCore | None = None
        """The core from which both sides launch, while timed on a GPU."""
        self.quickest_s = quickest_s
        """Shortest time of the candidate's calls so far."""
        self.reading_s = 0.0
        """Seconds to read the outputs of the candidate's last timed block, while no process ran."""
        self.surveys = self._device.type == "cuda"
        """True if outputs can be read in place: memory of a process on the CPU cannot be mapped."""
        self.probe = IdleProbe(self._device)
        """Requests of the referee's own to the device."""
        self._mutates = bool(spec.mutated_inputs)
        self.work = spec.work
        self._seen: torch.Tensor | None = None
        """Inputs of an earlier call, uint8 (1, slot_bytes); None if calls are long."""
        self._begun: set[Session] = set()
        """Sides whose first slot has inputs of an earlier call."""
        self.call_us = spec.call_us
        """Microseconds of a call of the reference, as it was described."""
        self.warmed = 0
        """Warm-up calls of the candidate so far."""
        self.counts = True
        """False if no call is verified: then overwritten inputs need not be named."""

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone.  Processes of other evaluations that run apart are paused,
        and their queued work is done.  If that takes long, this thread releases the lock until
        those processes have ended their calls.
        """
        for _ in range(YIELDS):
            with self.device_lock.exclusive(self.reference.process, self.candidate.process):
                if self._wait_for_queued_work():
                    yield
                    return
            self.device_lock.wait_for_apart(APART_S)
        with self.device_lock.exclusive(self.reference.process, self.candidate.process):
            self._wait_for_queued_work()
            yield

    def _wait_for_queued_work(self) -> bool:
        """Wait for the work that paused processes have queued; returns whether it ended in time."""
        with self.device_lock.uncharged.waiting():
            return not self.device_lock.has_paused or self.probe.is_idle(TURN_US, QUEUED_S)

    @contextmanager
    def timed_by(self, stopwatch: StopwatchInterface) -> Iterator[None]:
        """Make the enclosed calls timed calls."""
        self.stopwatch = stopwatch
        try:
            yield
        finally:
            self.stopwatch = None

    def side_of(self, session: Session) -> AbstractContextManager[None]:
        """Context of requests to this side: of the reference's, see `reference_side`."""
        return (
            nullcontext()
            if session is self.candidate
            else reference_side(self.device_lock.uncharged)
        )

    @property
    def failed(self) -> list[Trial]:
        """Calls with a wrong output."""
        return self.record.failed

    def verify(self, *deliveries: Delivery, keep: bool = True, known: Truth | None = None) -> bool:
        """See Verification.verify."""
        self.yield_to_timers()
        if not self.deadline.has_work_time:
            raise ReferenceFailedError(
                f"its own work, with the comparison of outputs, took more than"
                f" {self.deadline.work_limit_s:g} s"
            )
        with self.device_lock.uncharged.working():
            right = self.verification.verify(*deliveries, keep=keep, known=known)
            for delivery in deliveries if keep else ():
                require_changed(self, delivery)
            return right

    def are_right(self, delivery: Delivery) -> list[bool]:
        """See Verification.are_right."""
        self.yield_to_timers()
        with self.device_lock.uncharged.working():
            return self.verification.are_right(delivery)

    def give_inputs(self, batch: Batch, first: int, count: int) -> None:
        """Give the candidate inputs for a call that is not verified."""
        self.fill(self.candidate, batch, first, count)

    def hand_over(self, session: Session) -> Times:
        """Times of a block without calls, which begins like every block.

        On a GPU this includes the switch from the referee's context, which has just
        written inputs, to another process's: some 170 µs on an H200, paid by the first
        launch of a block.  So the shim makes a tiny launch if there is no call, or replays
        a graph of one if calls are replayed.
        """
        delivering = (
            Delivering.REPLAY if session.delivering == Delivering.REPLAY else Delivering.COPY
        )
        with self.side_of(session), session.handle.lock:
            session.process.freeze()
            self.probe.flush_caches()
            synchronize(self._device)
            times = session.timed_run(
                0, 0, delivering, self.time_limit_s(session, 1), self.stopwatch
            )
            session.process.freeze()
        return Times(*times)

    def warm(self, session: Session) -> None:
        """Make one uncounted call, or hand-over if calls are long: it brings the code and data that
        launch a block's calls into the core's caches.

        Inputs of an earlier call stay in the first slot, unless calls change them.
        """
        if self.core is not None:
            self.core.choose()
        if self._seen is None or not is_warmed(self.quickest_s or 0.0, self.work):
            self.hand_over(session)  # the reference's process may have answered others
            return
        with self.side_of(session), session.handle.lock:
            session.process.freeze()
            if self._mutates or session not in self._begun:
                session.region(self.arena.inputs, 0, 1).copy_(self._seen)
                synchronize(self._device)
                self._begun.add(session)
            limit_s = self.time_limit_s(session, 1)
            session.timed_run(0, 1, session.delivering, limit_s, spins=True)
            session.process.freeze()
        self.warmed += session is self.candidate

    def _settled_ns(self) -> int | None:
        """Nanoseconds that a tiny request to the device takes as soon as a process has reported
        done; remaining work of the process prolongs it.  None if nothing is timed.
        """
        if not self.probe.asks or self.stopwatch is None:
            return None
        return self.probe.answer_ns(TURN_US, SETTLING_S)

    def fill(self, session: Session, batch: Batch, first: int, count: int) -> int | None:
        """Put inputs into the slots of the next block, and poison its outputs.

        The process is frozen: inputs that it could see before the clock starts it could answer
        beforehand.  Returns the value of `_before` in timed calls.
        """
        session.process.freeze()
        if self.stopwatch is not None:
            self._wait_for_idle_device()
        at, given = self.slot(batch, first, count), self.given(batch, first, count)
        target = session.region(self.arena.inputs, at, count)
        if target.data_ptr() != given.data_ptr():
            target.copy_(given)
        elif self.stopwatch is not None:
            rewrite(target)
        if session.delivering != Delivering.HOLD:
            session.region(self.arena.outputs, at, count).view(-1, len(batch.poison))[:] = (
                batch.poison
            )
        synchronize(self._device)
        return self._before(session) if self.stopwatch is not None else None

    def _wait_for_idle_device(self) -> None:
        """Wait until the device is idle, before the inputs of a timed block are written.  If
        something goes on working, candidates that seemed to compile are paused.
        """
        sides = (self.reference.process, self.candidate.process)
        if not self.probe.is_idle(IDLE_US, RESTING_S) and self.device_lock.pause_all(*sides):
            self.probe.is_idle(IDLE_US, QUEUED_S)

    def _before(self, session: Session) -> int | None:
        """Wait for rest between a timed block's inputs and its clock: no thread runs,
        and nothing runs on the device.

        No signal stops work that a process has left there, such as a stream that waits for the
        last byte of an input. Returns the nanoseconds until the device is idle, which such
        work prolongs; None on the CPU.
        """
        before_ns = None
        if self.probe.asks:
            began = time.perf_counter_ns()
            self.probe.flush_caches()
            synchronize(self._device)
            self.probe.answer_ns(IDLE_US, RESTING_S)
            before_ns = time.perf_counter_ns() - began
        if session is self.candidate:
            session.process.require_frozen()
        return before_ns

    def time_limit_s(self, session: Session, count: int) -> float:
        """Seconds for so many calls."""
        if session is not self.candidate:
            return REFERENCE_TIMEOUT_S
        allowed = self.deadline.allow(count)
        if not self.surveys or self.quickest_s is None:
            return allowed
        return min(allowed, LATER_S + 10 * max(1, count) * self.quickest_s)

    def run_reference(self, batch: Batch, first: int, count: int) -> Times:
        """Make `count` calls of the reference."""
        if self.stopwatch is None:
            self.make_room_to_call()
        with reference_side(self.device_lock.uncharged), self.reference.handle.lock:
            before_ns = self.fill(self.reference, batch, first, count)
            delivering = self.reference.delivering
            at, limit_s = self.slot(batch, first, count), REFERENCE_TIMEOUT_S
            wall_ns, busy_ns = self.reference.timed_run(
                at, count, delivering, limit_s, self.stopwatch
            )
            times = Times(wall_ns, busy_ns, self._settled_ns(), before_ns)
            self.reference.process.freeze()
        if self._mutates:
            self._drawn_row = None
        return times

    def run_apart(self, batch: Batch, timeout_s: float, limits: FirstCall | None = None) -> Times:
        """Make a call of the candidate on the first of these inputs, which are in their slots,
        while others may be timed.  `limits`: see Session.timed_run.
        """
        at = self.slot(batch, 0, 1)
        held = compared_with_reference(self, [(batch, 0, 1)], self.device_lock.shared)
        with held, self.device_lock.apart(self.candidate.process):
            return Times(
                *self.candidate.timed_run(at, 1, Delivering.COPY, timeout_s, first_call=limits)
            )

    def try_calls(self, batch: Batch) -> Delivery:
        """Make one call of the candidate on each input set in a row, and verify them together."""
        delivery = self.run_candidate(batch, 0, min(batch.slots, self.in_block))
        call_s = min(self.call_us / 1e6, self.quickest_s or 0.0)  # others prolong the calls
        if batch.inputs is not None and is_warmed(call_s, self.work):
            self._seen = batch.inputs[:1].clone()
        self.verify(delivery)
        return delivery

    def run_candidate(self, batch: Batch, first: int, count: int) -> Delivery:
        """Make `count` calls of the candidate on inputs that it has not seen; the
        outputs are not yet verified.
        """
        if self.stopwatch is None:
            self.make_room_to_call()
        before_ns = self.fill(self.candidate, batch, first, count)
        delivering = self.candidate.delivering
        at, timeout_s = self.slot(batch, first, count), self.time_limit_s(self.candidate, count)
        with compared_with_reference(self, [(batch, first, count)]):
            times = Times(
                *self.candidate.timed_run(at, count, delivering, timeout_s, self.stopwatch)
            )
        if self.stopwatch is not None:
            times = self._settled(times)._replace(before_ns=before_ns)
        self.quickest_s = min(self.quickest_s or math.inf, times.wall_ns / 1e9 / max(1, count))
        pointers = self.candidate.pointers(count) if delivering.points else []
        began = time.perf_counter()
        delivery = self.delivery(batch, first, count, times, pointers)
        self.reading_s = time.perf_counter() - began
        return delivery

    def _settled(self, times: Times) -> Times:
        """Times of a timed block, once the candidate is frozen.  The stopwatch does not know
        processes that it started within the block and cannot stop them: the block lasts
        until all of them have been found.
        """
        done = time.perf_counter_ns()
        settled_ns = self._settled_ns()
        started_more = self.candidate.process.freeze()
        beyond_ns = time.perf_counter_ns() - done if started_more else 0
        return Times(times.wall_ns + beyond_ns, times.claimed_ns, settled_ns)

    def delivery(
        self, batch: Batch, first: int, count: int, times: Times, pointers: list[int]
    ) -> Delivery:
        """Outputs that the candidate has delivered by now, and those that change
        while it continues for a moment.

        After a timed block the candidate does not continue.  If the device was at rest then, it is
        not compared with the copy whether the memory has changed: with the pause of the reference
        that follows it, that took a tenth of the time for which the device is held (H100).
        """
        at = self.slot(batch, first, count)
        # At once: late writes are not in it.
        snapshot = self.candidate.delivered(at, count, pointers)
        at_rest = times.settled_ns is not None and times.settled_ns < SETTLING_S * 1e9
        if self.stopwatch is None:  # else it is frozen already
            synchronize(self._device)
            time.sleep(secrets.randbelow(1000) / 1000 * LINGER_S)
            self.candidate.process.freeze()
        given = self.given(batch, first, count)
        inputs = self.candidate.region(self.arena.inputs, at, count)
        differing = [differ(given, inputs), *([] if at_rest else [snapshot.differs()])]
        overwritten, *late = torch.stack(differing).tolist()
        is_named = overwritten and self.counts
        none: list[tuple[int, ...]] = [()] * count
        delivery = Delivery(
            batch=batch,
            first=first,
            count=count,
            times=times,
            outputs=snapshot.copy,
            pointers=pointers,
            changed=changed(given, inputs, self.arena.inputs) if is_named else none,
            late=none,
        )
        return replace(delivery, late=self.late(delivery)) if any(late) else delivery

    def late(self, delivery: Delivery) -> list[tuple[int, ...]]:
        """Per call, the outputs that have changed since they were delivered."""
        at = self.slot(delivery.batch, delivery.first, delivery.count)
        now = self.candidate.delivered(at, delivery.count, delivery.pointers).copy
        return changed(delivery.outputs, now, self.arena.outputs)
