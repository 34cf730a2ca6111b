"""Timing launches in a profiled call, on a device that is pretended: events behave
as CUDA documents them.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.backends.recording import recorder as recording
from workers.backends.recording.recorder import LEAD_NS, LONGEST_LEAD_NS, Clock, Recorder
from workers.protocol import control_channel, launch_records
from workers.protocol.launch_records import Launch
from workers.protocol.reference_work import ReferenceWork
from workers.referee.probes import call_profile
from workers.shims import kineto

GPU = torch.device("cuda", 0)
KERNEL = Launch(name="k", origin="triton")


class FakeGpu:
    """Two streams: work on the current one waits behind the lead, work on the other does not."""

    def __init__(self) -> None:
        self.leads_ns: list[int] = []
        self.aside = False
        self.capturing = False
        self.clock_ms = 0.0
        self.host_ns = 0
        self.queued: list[FakeEvent] = []

    def sleep(self, cycles: int) -> None:
        self.leads_ns.append(cycles // recording.CYCLES_PER_NS)
        self.clock_ms += cycles / recording.CYCLES_PER_NS / 1e6

    def launch(self) -> None:
        self.clock_ms += 1.0


class FakeEvent:
    """torch.cuda.Event: its time is known only when it is done."""

    gpu: FakeGpu

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.done = False

    def record(self) -> None:
        if self.gpu.capturing:
            return  # for ever without a time
        self.at_ms, self.done = self.gpu.clock_ms - (1_000 if self.gpu.aside else 0), self.gpu.aside
        if not self.gpu.aside:
            self.gpu.queued.append(self)

    def synchronize(self) -> None:
        if self in self.gpu.queued:
            for event in self.gpu.queued[: self.gpu.queued.index(self) + 1]:
                event.done = True

    def elapsed_time(self, other: "FakeEvent") -> float:
        if not (self.done and other.done):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return other.at_ms - self.at_ms


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    FakeEvent.gpu = FakeGpu()
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "_sleep", FakeEvent.gpu.sleep)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: FakeEvent.gpu.capturing)
    monkeypatch.setattr(
        recording, "time", SimpleNamespace(perf_counter_ns=lambda: FakeEvent.gpu.host_ns)
    )
    yield FakeEvent.gpu
    del FakeEvent.gpu


def _launch(recorder: Recorder, gpu: FakeGpu, *, aside: bool = False) -> None:
    gpu.aside = aside
    recorder.launch(gpu.launch, lambda _: KERNEL, {})
    gpu.aside = False


def test_launches_are_timed_from_the_beginning_of_the_call(gpu: FakeGpu) -> None:
    recorder = Recorder()
    total_ns = recorder.profile(GPU, lambda: [_launch(recorder, gpu) for _ in range(3)])
    assert [(row.start_ns, row.duration_ns) for row in recorder.rows] == [
        (0, 1_000_000),
        (1_000_000, 1_000_000),
        (2_000_000, 1_000_000),
    ]
    assert total_ns == 3_000_000
    assert gpu.leads_ns == [LEAD_NS]


def test_a_stream_without_waits_may_be_done_before_the_call_begins(gpu: FakeGpu) -> None:
    recorder = Recorder()

    def call() -> None:
        _launch(recorder, gpu, aside=True)
        _launch(recorder, gpu)

    recorder.profile(GPU, call)
    assert [row.start_ns for row in recorder.rows] == [0, 1_000_000]


def test_what_a_launch_has_the_host_do_is_not_the_kernels(gpu: FakeGpu) -> None:
    recorder = Recorder()

    def run() -> None:
        gpu.clock_ms += 20  # the library, in the function that gives the grid
        recorder.kernel_begins()
        gpu.launch()

    total_ns = recorder.profile(GPU, lambda: recorder.launch(run, lambda _: KERNEL, {}))
    assert [(row.start_ns, row.duration_ns) for row in recorder.rows] == [(20_000_000, 1_000_000)]
    assert total_ns == 21_000_000


def test_what_is_recorded_into_a_graph_does_not_run_and_is_not_timed(gpu: FakeGpu) -> None:
    recorder = Recorder()

    def call() -> None:
        gpu.capturing = True
        _launch(recorder, gpu)
        gpu.capturing = False
        _launch(recorder, gpu)

    recorder.profile(GPU, call)
    assert len(recorder.rows) == 1


@pytest.mark.parametrize(
    ("host_ns", "repeats", "leads_ns"),
    [
        (LEAD_NS // 2, True, [LEAD_NS]),
        (2 * LEAD_NS, True, [LEAD_NS, 4 * LEAD_NS]),
        (2 * LEAD_NS, False, [LEAD_NS]),
        # no lead helps, and a call of minutes is not made twice
        (LONGEST_LEAD_NS + 1, True, [LEAD_NS]),
    ],
)
def test_where_the_host_is_slower_than_the_lead_it_gets_a_longer_one(
    gpu: FakeGpu, host_ns: int, repeats: bool, leads_ns: list[int]
) -> None:
    recorder, done = Recorder(), list[int]()

    def call() -> None:
        gpu.host_ns += host_ns
        _launch(recorder, gpu)

    recorder.profile(GPU, call, lambda: done.append(len(gpu.leads_ns)), repeats=repeats)
    assert gpu.leads_ns == leads_ns
    assert done == [
        1
    ]  # the first call's result: the second may find inputs that the first has changed
    assert len(recorder.rows) == 1


def test_a_profiled_call_that_fails_leaves_nothing_behind(gpu: FakeGpu) -> None:
    recorder = Recorder()

    def call() -> None:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        recorder.profile(GPU, call)
    assert recorder.idle


class FakeProfiler:
    """torch.profiler.profile, which has seen two kernels far from each other."""

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> "FakeProfiler":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def export_chrome_trace(self, path: str) -> None:
        event = {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "pid": 1,
            "tid": 1,
            "dur": 2.0,
            "args": {"stream": 7},
        }
        Path(path).write_text(
            json.dumps({"traceEvents": [{**event, "ts": 10.0}, {**event, "ts": 900.0}]})
        )


def test_the_drivers_profiler_does_not_count_what_the_device_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waited: list[bool] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kineto, "_Profiler", FakeProfiler)
    monkeypatch.setattr(kineto, "synchronise", lambda: waited.append(True))
    done: list[str] = []
    busy_ns, found = kineto.profile(
        lambda index: done.append(f"call {index}"),
        lambda index: done.append(f"deliver {index}"),
        2,
        tmp_path,
        {"k"},
    )
    assert busy_ns == 4000
    assert [each.start_ns for each in found] == [0, 890_000]
    assert waited == [True, True]
    assert done == ["call 0", "deliver 0", "call 1", "deliver 1"]


def test_the_profiled_call_with_the_median_share_counts() -> None:
    def call(number: int, own_ns: int, library_ns: int) -> list[Launch]:
        return [
            KERNEL._replace(call=number, duration_ns=own_ns),
            Launch(
                name="gemm", origin="torch", start_ns=own_ns, duration_ns=library_ns, call=number
            ),
            Launch(
                name="Memcpy DtoH",
                origin="transfer",
                start_ns=1 << 20,
                duration_ns=1 << 20,
                call=number,
            ),
        ]

    rows = [
        *call(0, 10, 2_000_000),
        *call(1, 10, 90),
        *call(2, 2_000_000, 90),
    ]  # two waited for their turn
    assert call_profile.typical(rows) == call(1, 10, 90)
    assert call_profile.typical(call(1, 10, 90)) == call(1, 10, 90)
    assert call_profile.typical([]) == []


class FakeSession:
    """A candidate that says how long its call took the device, and has one kernel on
    a stream of its own.
    """

    def __init__(self, device_ns: int, rows: list[Launch]) -> None:
        mailbox = bytearray(control_channel.MAILBOX_BYTES)
        packed = launch_records.packed(rows)
        mailbox[control_channel.LAUNCHES_AT : control_channel.LAUNCHES_AT + len(packed)] = packed
        self.handle = SimpleNamespace(mailbox=mailbox, device=GPU)
        self._answers = {
            control_channel.Command.PROFILE: (device_ns, 0),
            control_channel.Command.TESTIFY: (len(rows), 3),
        }

    def ask(self, command: control_channel.Command, timeout_s: float, **_: int) -> tuple[int, int]:
        return self._answers[command]


@pytest.mark.parametrize(
    ("device_ns", "device_us", "covered"), [(0, 8.0, 1.0), (2_000, 8.0, 1.0), (16_000, 16.0, 0.5)]
)
def test_a_device_is_busy_at_least_as_long_as_what_it_ran(
    device_ns: int, device_us: float, covered: float
) -> None:
    draw: Callable[[int], Any] = lambda _: SimpleNamespace(at=0)  # noqa: E731
    trials: Any = SimpleNamespace(
        candidate=FakeSession(device_ns, [KERNEL._replace(duration_ns=8_000)]),
        give_inputs=lambda *_: None,
        draw=draw,
        delivery=lambda *_: None,
        verify=lambda _: True,
        slot=lambda *_: 0,
        deadline=SimpleNamespace(allow=lambda: 1.0),
        time_limit_s=lambda *_: 1.0,
    )
    spec: Any = SimpleNamespace(bytes_moved=1 << 20, work=ReferenceWork())
    testimony, table, _ = call_profile.profile(trials, spec, 1e12, full=False)
    assert (table.device_us, table.coverage_time, testimony.launches) == (device_us, covered, 3)


def test_a_kernel_is_not_charged_for_what_others_do_meanwhile() -> None:
    clock = Clock(torch.device("cpu"))
    clock.mark()
    time.sleep(0.02)  # others have the processor
    clock.mark()
    assert 0 <= clock.spent_ns() < clock.nanoseconds()
