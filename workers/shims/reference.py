"""The shim inside a reference's process: builds the problem's model, draws inputs,
computes the expected outputs.

It runs in the same sandbox as a candidate, because the problem's code comes with the request as
well.  The referee trusts its outputs by decision, and checks its spec before use.

One process serves all evaluations of its problem.  Each evaluation has a session with its own
parameters and arena; the problem's spec is determined once.
"""

from __future__ import annotations

import copy
import json
import mmap
import os
import socket
import time
from dataclasses import asdict
from pathlib import Path

import torch

from workers.backends.support import import_hook
from workers.protocol import control_channel, layout, pretrained, problem_spec, shared_memory
from workers.protocol.control_channel import Command, Reply, ReplyCode, Request
from workers.shims import call_errors, calls, shortages, warmup, weights
from workers.shims.problem import graph_replay
from workers.shims.problem.answers import equivalent_answers, expected_outputs, narrow_products
from workers.shims.problem.input_slots import InputSlots
from workers.shims.problem.reference_problem import Problem
from workers.shims.problem.reference_session import (
    Session,
    WorkQueue,
    keep_little,
    seed_slot,
    settle,
    write,
)

RECORDED_FROM = 16
"""Input sets in one request from which on drawing is recorded: recording takes as long as drawing a
hundred sets, and a session that requests so many requests more.
"""


def prepare() -> None:
    """Prepare the zygote for all references; memory is estimated on the meta device
    for a GPU alone.
    """
    if os.environ["EVALUATION_DEVICE"] != "cpu":
        warmup.load_modes()
    warmup.fill_heap()


def serve(channel: socket.socket, scratch: Path) -> None:
    """Answer commands until the channel closes."""
    control_channel.answer_requests(channel, Shim(scratch).answer)


class Shim:
    """The shim of one problem, with the sessions of its evaluations."""

    def __init__(self, scratch: Path) -> None:
        """`scratch`: the only folder that may be written."""
        self._device = torch.device(os.environ["EVALUATION_DEVICE"])
        self._problem = Problem(scratch, self._device)
        self._filler = InputSlots(self._problem)
        self._mailbox: mmap.mmap | None = None
        self._shared = calls.Shared()
        if self._device.type == "cuda":
            self._shared.forget_after_release()
        self._sessions: dict[int, Session] = {}
        self._hidden: narrow_products.Hidden | None = None
        """Products of the problem with errors that a comparison does not show
        (narrow_products.py); None until sought.
        """
        self._playback = (
            graph_replay.Playback(self._device) if self._device.type == "cuda" else None
        )
        import_hook.once_imported("transformers", pretrained.offline)

    def answer(self, request: Request) -> Reply:
        """Carry out one request; the number of DESCRIBE is bytes of spec."""
        command, number, a, b, c, seed, fd = request
        try:
            if command == Command.RUN:  # first, because the clock is running
                return self._run(self._sessions[number], a, b, c)
            if command == Command.LOAD and fd is not None:
                return self._load(fd, a, b, by_cases=bool(c))
            if command == Command.DESCRIBE:
                return self._describe(number, a, seed, sole=bool(b))
            if command == Command.ESTIMATE:
                return Reply(ReplyCode.DONE, self._problem.estimated_bytes(seed))
            if command == Command.ARENA and fd is not None:
                return self._lay_out(self._sessions[number], fd, problem_spec.Slots(a, b))
            if command == Command.GENERATE:
                return self._generate(self._sessions[number], a, b, c, seed)
            if command == Command.GIVE_BACK:
                return self._give_back(self._sessions[number])
            if command == Command.EXPECT:
                return self._expect(self._sessions[number], a, b, fd, own=bool(c))
            if command == Command.SECOND_LOOK:
                return self._second_look(self._sessions[number], a, ties_only=bool(b))
            if command == Command.PREDICT:
                return self._predict(self._sessions[number], a, b, wanted=c)
            if command == Command.VARY:
                return self._vary(self._sessions[number], a, b, c, seed)
            if command == Command.REFIT:
                return self._refit(self._sessions[number])
            if command == Command.EVENTS:
                return self._event_mean(self._sessions[number], a, b, c)
            if command == Command.CAPTURE:
                return self._capture(self._sessions[number], a, b, c)
            if command == Command.SEGMENT:
                return calls.share(self._shared, a)
            if command == Command.RELEASE:
                return self._release(number)
            if command == Command.SHORTAGES:
                return Reply(ReplyCode.DONE, shortages.count())
            if command == Command.WARM:
                warmup.make_context(self._device)
                return Reply(ReplyCode.DONE)
            if command == Command.LOAD_OPERATIONS:
                warmup.load_operations(self._device)
                return Reply(ReplyCode.DONE)
            return Reply(ReplyCode.UNSUPPORTED)
        except BaseException as error:  # noqa: BLE001 (stands around the problem's code)
            assert self._mailbox is not None
            text = control_channel.put_text(self._mailbox, call_errors.explain(error))
            return Reply(call_errors.outcome_of(error, ReplyCode.CALL_FAILED), 0, text)

    def _run(self, session: Session, first: int, count: int, delivering: int) -> Reply:
        assert session.slots is not None
        return Reply(ReplyCode.DONE, session.slots.run(session.model, first, count, delivering))

    def _capture(self, session: Session, first: int, count: int, delivering: int) -> Reply:
        assert session.slots is not None
        session.slots.capture(session.model, first, count, delivering)
        return Reply(ReplyCode.DONE)

    def _event_mean(self, session: Session, slot: int, warmups: int, trials: int) -> Reply:
        assert session.slots is not None
        return Reply(ReplyCode.DONE, session.slots.event_mean(session.model, slot, warmups, trials))

    def _release(self, number: int) -> Reply:
        """End a session.  A process without sessions releases most of its cached device memory,
        which no evaluation has reserved; answers whether it released any.
        """
        self._sessions.pop(number, None)
        return Reply(ReplyCode.DONE, int(not self._sessions and keep_little(self._device)))

    def _give_back(self, session: Session) -> Reply:
        """Release the outputs of earlier calls and all cached device memory."""
        if session.slots is not None:
            session.slots.drop_held()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return Reply(ReplyCode.DONE)

    def _load(self, fd: int, source_bytes: int, entry_bytes: int, *, by_cases: bool) -> Reply:
        self._mailbox = mmap.mmap(fd, control_channel.MAILBOX_BYTES)
        os.close(fd)
        entry_point = self._mailbox[
            control_channel.SPEC_AT : control_channel.SPEC_AT + entry_bytes
        ].decode()
        if lacking := self._problem.load(
            self._mailbox[:source_bytes], entry_point, by_cases=by_cases
        ):
            return Reply(
                ReplyCode.NO_ENTRY_POINT, 0, control_channel.put_text(self._mailbox, lacking)
            )
        return Reply(ReplyCode.DONE)

    def _describe(self, number: int, case: int, seed: bytes, *, sole: bool) -> Reply:
        """Start a session and write its spec into the mailbox."""
        assert self._mailbox is not None
        session = self._sessions[number] = self._problem.session(case, seed, sole=sole)
        data = json.dumps(asdict(session.spec)).encode()
        if len(data) > control_channel.SPEC_BYTES:
            raise layout.UnsupportedError(
                f"a spec of {len(data)} bytes; at most {control_channel.SPEC_BYTES}"
            )
        self._mailbox[control_channel.SPEC_AT : control_channel.SPEC_AT + len(data)] = data
        return Reply(ReplyCode.DONE, len(data))

    def _lay_out(self, session: Session, fd: int, slots: problem_spec.Slots) -> Reply:
        """Map the arena and write the constant values: parameters and constructor arguments."""
        assert self._mailbox is not None
        arena = problem_spec.arena(session.spec, slots)
        memory = shared_memory.attach(self._device, fd, arena.reference_bytes)
        os.close(fd)  # the mapping keeps the memory; a descriptor would keep it beyond that
        if isinstance(session.model, torch.nn.Module):
            named = weights.named(session.model)
            for view, (_, tensor) in zip(arena.parameters.views(memory, 0), named, strict=True):
                view.copy_(tensor.detach())
        write(arena.init.views(memory, 0), session.init)
        session.arena, session.memory, session.recording = arena, memory, None
        session.slots = calls.Slots(session.spec, arena, memory, self._shared, self._mailbox)
        settle(self._device)
        session.inputs = [arena.inputs.views(memory, slot) for slot in range(slots.inputs)]
        baseline = [arena.baseline.views(memory, slot) for slot in range(arena.baseline.slots)]
        expected = [arena.expected.views(memory, slot) for slot in range(slots.expected)]
        session.answers = list(zip(baseline, expected, strict=False))
        session.own = baseline
        return Reply(ReplyCode.DONE)

    def _refit(self, session: Session) -> Reply:
        """Copy the constants in the arena into the model and its twin, in place because
        recordings hold the addresses.
        """
        assert session.arena is not None
        assert session.memory is not None
        views = zip(
            session.spec.parameters, session.arena.parameters.views(session.memory, 0), strict=True
        )
        values = {name: view for name, view in views if name in session.spec.constants}
        with torch.no_grad():
            for model in (session.model, session.twin):
                ours = dict(weights.named(model)) if model is not None else {}
                for name, value in values.items() if ours else ():
                    ours[name].copy_(value)
        return Reply(ReplyCode.DONE)

    def _generate(self, session: Session, first: int, count: int, row: int, seed: bytes) -> Reply:
        """Draw inputs into slots first … first+count−1: rows `row` and following of a batch.  In an
        arena of the layout "together", also write the reference's outputs and the fp64 outputs.

        A recording draws from the device's generator.  The host's generator is predictable from
        twenty thousand of its numbers, which a candidate may have seen in an earlier block; so
        without a recording each slot has its own seed.
        """
        played = self._recorded(session, count)
        if played is not None:
            calls.seed_everything(seed, calls.DRAWING)
            played.play(first, count)
        else:
            for slot in range(first, first + count):
                seed_slot(seed, row + slot - first)
                self._filler.fill(session, session.inputs[slot], session.answers_of(slot))
        settle(self._device)
        return Reply(ReplyCode.DONE)

    def _recorded(self, session: Session, count: int) -> graph_replay.Recording | None:
        """The session's recording, made at the first large request; None if there is none.
        Problems by cases look up answers on the host, which cannot be recorded.
        """
        if self._playback is None or self._playback.given_up or self._problem.by_cases:
            return None
        if session.arena is None or not session.arena.slots.together:
            return None
        if session.recording is None and count >= RECORDED_FROM:
            assert session.arena is not None
            assert session.memory is not None

            def fill(views: graph_replay.Views) -> None:
                self._filler.fill(session, views[0], (views[1], views[2]))

            models = (session.model, session.twin)
            session.recording = self._playback.record(session.arena, session.memory, fill, models)
        return session.recording

    def _expect(
        self, session: Session, first: int, count: int, fd: int | None, *, own: bool
    ) -> Reply:
        """Compute the expected outputs for the inputs in slots first … first+count−1: baseline and
        fp64 outputs, into the first slots for them or into the memory of `fd`.  Answers the number
        of calls with expected outputs by the twin; for a problem that fills the device it may be 0,
        and then they are the reference's own outputs.  `own`: compute the baseline only.
        """
        assert session.arena is not None
        assert session.memory is not None
        assert session.slots is not None
        session.slots.drop_held()
        exact = 0
        answers = [(baseline_at, []) for baseline_at in session.own] if own else session.answers
        if fd is not None:
            expected = shared_memory.attach(self._device, fd, session.arena.expected.stop)
            os.close(fd)
            answers = [(session.own[0], session.arena.expected.views(expected, 0))]
        queue = WorkQueue(self._device)
        for slot, (baseline_at, expected_at) in zip(
            range(first, first + count), answers[:count], strict=True
        ):
            inputs = layout.rebuild(session.spec.inputs, iter(session.inputs[slot]))
            given = copy.deepcopy(inputs) if session.spec.mutated_inputs else inputs
            if own:
                expected_outputs.own(session, given, baseline_at)
            else:
                exact += expected_outputs.compute(session, given, baseline_at, expected_at)
            queue.add_call()
        settle(self._device)
        return Reply(ReplyCode.DONE, exact)

    def _vary(self, session: Session, first: int, wanted: int, sets: int, seed: bytes) -> Reply:
        """Fill slots with variants; see InputSlots.vary."""
        assert self._mailbox is not None
        made, refused = self._filler.vary(session, first, wanted, sets, seed)
        return Reply(ReplyCode.DONE, made, control_channel.put_text(self._mailbox, refused))

    def _second_look(self, session: Session, slot: int, *, ties_only: bool) -> Reply:
        """Look for elements of an answer that differ from the expected ones and are
        right (equivalent_answers.py).
        """
        assert self._mailbox is not None
        began = time.process_time()
        leaves = expected_outputs.equivalent(session, slot, ties_only=ties_only)
        if leaves is None:
            return Reply(ReplyCode.UNSUPPORTED)
        settle(self._device)
        busy_ns = round((time.process_time() - began) * 1e9)
        told = json.dumps(equivalent_answers.as_json(leaves))
        return Reply(ReplyCode.DONE, busy_ns, control_channel.put_text(self._mailbox, told))

    def _predict(self, session: Session, slot: int, control: int, *, wanted: int) -> Reply:
        """Predict the errors of an answer if its products had narrow factors
        (narrow_products.py).
        """
        assert self._mailbox is not None
        began = time.process_time()
        found = narrow_products.sums(session, slot, control, wanted, self._hidden)
        if found is None:
            return Reply(ReplyCode.UNSUPPORTED)
        of_outputs, self._hidden = found
        settle(self._device)
        busy_ns = round((time.process_time() - began) * 1e9)
        told = json.dumps(of_outputs)
        return Reply(ReplyCode.DONE, busy_ns, control_channel.put_text(self._mailbox, told))
