"""Device memory and descriptors that are given back, also where a request or an
allocation fails.
"""

from __future__ import annotations

import array
import errno
import gc
import os
import socket
import weakref
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from workers.protocol import control_channel, shared_memory
from workers.protocol.control_channel import Delivering, ReplyCode
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.processes.candidate_processes import SpareCandidates
from workers.referee.processes.process_handle import FailedError, ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.resources import Resources
from workers.referee.session import streamed_truth, variant_calls
from workers.referee.session.batches import Truth
from workers.referee.session.draws import Draws
from workers.referee.session.streamed_truth import StreamedTruth
from workers.referee.timing import output_mapping
from workers.sandbox.confined_process import ConfinedProcess
from workers.sandbox.process_errors import BrokenProtocolError, ZygoteError

CPU = torch.device("cpu")


@pytest.mark.parametrize(("free_bytes", "stays"), [(99, False), (100, True)])
def test_expected_outputs_are_gone_once_their_memory_is_released(
    monkeypatch: pytest.MonkeyPatch, free_bytes: int, stays: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free_bytes, 1000))
    draws: Any = object.__new__(Draws)
    streamed: Any = object.__new__(StreamedTruth)
    draws._streamed = streamed
    streamed._device, streamed._truth_bytes = torch.device("cuda"), 100
    memory = torch.zeros(8)
    streamed._memory = SimpleNamespace(memory=memory)
    draws._last = ((None, 0, 1), 7, Truth(expected=[memory[:4]], baseline=[]))
    alive = weakref.ref(memory.untyped_storage())
    del memory
    draws.release_spare_memory()
    assert (alive() is not None) == stays
    assert (draws._last is not None) == stays


def test_expected_outputs_of_a_streamed_call_are_gone_before_the_next_inputs_are_drawn() -> None:
    """Memory is reserved for the one or for the other."""
    draws: Any = object.__new__(Draws)
    streamed: Any = object.__new__(StreamedTruth)
    draws._streamed = streamed
    streamed._memory, draws._last, draws._drawn_row = SimpleNamespace(), object(), (1, 0)
    held = []
    draws._generate = lambda *_: held.append((streamed._memory, draws._last))
    batch = SimpleNamespace(number=1, rows=range(2), variants=(), seed=b"")
    draws._ensure_drawn(batch, 0)
    assert streamed._memory is not None, "the inputs are those of the expected outputs"
    draws._ensure_drawn(batch, 1)
    assert held == [(None, None)]


@pytest.mark.parametrize(
    ("delivering", "gives"), [(Delivering.COPY, True), (Delivering.HOLD, False)]
)
def test_memory_that_drawing_left_is_given_back_before_outputs_are_expected(
    monkeypatch: pytest.MonkeyPatch, delivering: Delivering, gives: bool
) -> None:
    """Not once outputs of the reference are mapped: they would have other addresses."""
    asked = []
    monkeypatch.setattr(streamed_truth, "make_room", lambda *_: None)
    monkeypatch.setattr(streamed_truth, "give_back", lambda *_: asked.append("give back"))
    monkeypatch.setattr(shared_memory, "Kept", lambda *_: _kept(8))
    streamed = _streamed_truth(
        torch.device("cuda"), lambda *_, **__: asked.append("expect") or (1, 0)
    )
    streamed._reference.delivering = delivering
    streamed.compute()
    assert asked == ["give back"] * gives + ["expect"]


def _kept(size: int) -> SimpleNamespace:
    whole = torch.zeros(size, dtype=torch.uint8)
    return SimpleNamespace(fd=None, memory=SimpleNamespace(whole=whole))


def _streamed_truth(device: torch.device, ask: Any) -> Any:
    streamed: Any = object.__new__(StreamedTruth)
    streamed._device, streamed._truth_bytes, streamed._memory = device, 0, None
    streamed._uncharged = UnchargedTime()
    region = SimpleNamespace(slot_bytes=8, stop=8, offsets=(), leaves=())
    streamed._reference = SimpleNamespace(
        arena=SimpleNamespace(expected=region, baseline=region, outputs=region),
        delivering=Delivering.COPY,
        handle=SimpleNamespace(device=device),
        ask=ask,
        region=lambda *_: torch.zeros(1, 8, dtype=torch.uint8),
    )
    return streamed


@pytest.fixture
def handle() -> ProcessHandle:
    return ProcessHandle(SimpleNamespace(kill=lambda wait_s: None), CPU)  # type: ignore[arg-type]


def test_every_evaluation_learns_that_its_reference_has_given_memory_back(
    handle: ProcessHandle,
) -> None:
    first, second = sessions = Session(handle, 1), Session(handle, 2)
    for session in sessions:
        session.delivering, session.mapping = Delivering.HOLD, handle.mappings_dropped
    draws: Any = object.__new__(Draws)
    draws.reference = second
    assert not draws.gave_back
    handle.unmap_segments()  # on behalf of the first
    assert first.has_lost_mapping
    assert draws.gave_back
    second.delivering = Delivering.COPY
    assert not draws.gave_back  # nothing stays in place
    handle.close()


def test_a_survey_begins_before_mappings_may_be_dropped(
    monkeypatch: pytest.MonkeyPatch, handle: ProcessHandle
) -> None:
    session: Any = Session(handle, 1)
    session.pointers = lambda count: [1 << 20]
    session.timed_run = lambda *_: (1, 1)
    session.process.freeze = lambda: None
    asked: list[bool] = []
    runner: Any = SimpleNamespace(
        candidate=None,
        side_of=lambda _: nullcontext(),
        fill=lambda *_: None,
        slot=lambda *_: 0,
        time_limit_s=lambda *_: 1.0,
        make_room_to_call=lambda: asked.append(True),
    )
    monkeypatch.setattr(output_mapping, "map_in_place", lambda *_: not handle.unmap_segments())
    output_mapping._survey(runner, session, None, 1)
    assert session.delivering == Delivering.HOLD
    assert session.has_lost_mapping
    monkeypatch.setattr(output_mapping, "map_in_place", lambda *_: True)
    output_mapping._survey(runner, session, None, 1)
    assert not session.has_lost_mapping
    assert asked == [True, True]  # the call of a survey takes the memory of one
    handle.close()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, shared_memory.OutOfDeviceMemoryError])
def test_an_evaluation_has_its_result_although_memory_runs_out_for_its_last_call(
    error: type[Exception],
) -> None:
    def draw_unusual(_: object) -> None:
        raise error("tried to allocate 8.00 GiB")

    runner: Any = SimpleNamespace(
        deadline=SimpleNamespace(left_s=1.0),
        candidate=SimpleNamespace(replace_launches=lambda *_, **__: None),
        time_limit_s=lambda *_: 1.0,
        device_lock=SimpleNamespace(shared=nullcontext),
        draw_unusual=draw_unusual,
    )
    variant_calls.try_nonfinite(runner)


def _is_open(fd: int) -> bool:
    return Path(f"/proc/self/fd/{fd}").exists()


def _reply(handle: ProcessHandle, outcome: int = ReplyCode.DONE, size: int = 1 << 21) -> bytes:
    return control_channel.REPLY.pack(outcome, handle._sequence, 1 << 21, size)


@pytest.mark.parametrize(
    ("outcome", "size", "raised", "error"),
    [
        (ReplyCode.CALL_FAILED, 1 << 21, None, FailedError),
        (99, 1 << 21, None, BrokenProtocolError),
        (ReplyCode.DONE, 1, None, BrokenProtocolError),
        (
            ReplyCode.DONE,
            1 << 21,
            shared_memory.CudaDriverError("invalid value"),
            BrokenProtocolError,
        ),
        (
            ReplyCode.DONE,
            1 << 21,
            shared_memory.OutOfDeviceMemoryError("no"),
            shared_memory.OutOfDeviceMemoryError,
        ),
    ],
)
def test_a_descriptor_that_comes_with_an_answer_is_closed_and_lack_of_memory_is_the_referees(
    handle: ProcessHandle, outcome: int, size: int, raised: Exception | None, error: type[Exception]
) -> None:
    fd = os.memfd_create("segment")

    def add(*_: object) -> None:
        raise raised or AssertionError("it was to be refused")

    process: Any = handle.process
    process.send, process.thaw = lambda *_: None, lambda: None
    process.receive_with_fd = lambda *_: (_reply(handle, outcome, size), fd)
    handle._mapped.add = add  # type: ignore[assignment, method-assign]
    with pytest.raises(error):
        handle.map_segment((1 << 21) + 5, 1.0)
    assert not _is_open(fd)
    handle.close()


@pytest.mark.parametrize("message", [b"x" * 7, b"x" * 9, b""])
def test_a_descriptor_that_comes_with_a_malformed_message_is_closed(message: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    notes, warden = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process: Any = object.__new__(ConfinedProcess)
    process._channel, process._notes, process._end = ours, notes, None
    sent = os.memfd_create("segment")
    before = set(Path("/proc/self/fd").iterdir())
    theirs.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sent]))])
    warden.close()  # an empty message is waited for no longer
    with pytest.raises((BrokenProtocolError, ZygoteError)):
        process.receive_with_fd(8, 1.0)
    assert set(Path("/proc/self/fd").iterdir()) <= before
    for each in (ours, theirs, notes):
        each.close()
    os.close(sent)


STEPS = (
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemAddressReserve",
    "cuMemMap",
    "cuMemSetAccess",
)


@pytest.mark.parametrize("failing", STEPS)
def test_an_allocation_that_fails_halfway_leaves_neither_memory_nor_a_descriptor(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Outputs of gigabytes on a device that is nearly full."""
    made: list[int] = []
    counts = dict.fromkeys(("cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap"), 0)

    def driver(name: str, *arguments: Any) -> None:
        if name == failing:
            raise shared_memory.OutOfDeviceMemoryError(name)
        if name in counts:
            counts[name] += 1
        if name == "cuMemExportToShareableHandle":
            made.append(os.memfd_create("memory"))
            arguments[0]._obj.value = made[-1]

    monkeypatch.setattr(shared_memory, "_driver", driver)
    monkeypatch.setattr(shared_memory, "_granularity", lambda device: 1 << 21)
    idle = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: idle)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    with pytest.raises(shared_memory.OutOfDeviceMemoryError):
        shared_memory.create(torch.device("cuda", 0), 1 << 22)
    gc.collect()
    assert not any(map(_is_open, made))
    assert counts["cuMemRelease"] == counts["cuMemCreate"]
    assert counts["cuMemUnmap"] == counts["cuMemMap"]


def test_a_process_without_a_mailbox_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[bool] = []
    process = SimpleNamespace(kill=lambda: killed.append(True))
    host: Any = object.__new__(Resources)
    host._zygote = SimpleNamespace(spawn=lambda *_, **__: process)
    host.device = SimpleNamespace(limits_memory=False, torch_device=CPU)

    def no_descriptor(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(shared_memory, "host_file", no_descriptor)
    with pytest.raises(OSError, match="too many open files"):
        host._spawn("workers.shims.candidate", 0)
    assert killed == [True]


@pytest.mark.parametrize("by_twin", [0, 1])
def test_a_call_compared_with_the_references_own_outputs_for_lack_of_memory_is_counted(
    by_twin: int,
) -> None:
    draws: Any = object.__new__(Draws)
    draws._streamed = _streamed_truth(CPU, lambda *_, **__: (by_twin, 0))
    draws._streamed._memory = _kept(8)
    draws.record = SimpleNamespace(own_truth_calls=0)
    draws.given = lambda *_: None
    draws._truth_of_one([(None, 0, 1)])
    assert draws.record.own_truth_calls == 1 - by_twin


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_of_comparisons_is_the_kernels_again_between_two_jobs() -> None:
    """The heap does not shrink by itself below a block that is still in use."""
    spares: Any = SpareCandidates(lambda _: cast("Any", None), lambda: None)
    torch.ones(16 << 20, dtype=torch.uint8)  # from here on such blocks are in the heap
    blocks = [[torch.ones(size << 20, dtype=torch.uint8) for size in (4, 1)] for _ in range(32)]
    for pair in blocks:
        del pair[0]
    before = _resident_bytes()
    spares.recycle(0)
    assert before - _resident_bytes() > 100 << 20
    assert len(blocks) == 32
