"""The speedup by the device's own time: replayed outputs are compared, and a missing
value has a reason.

Both sides' shims run here, on the CPU; a tape of tensor operations stands for a CUDA graph.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.domain.other_timings import DeviceTiming
from tests.unit.tape_graphs import Benchmark, Recorder, Tape
from workers.protocol.control_channel import Command
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.timing import device_time
from workers.referee.timing.measurements import CANDIDATE, REFERENCE
from workers.shims import graph_capture


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EVALUATION_DEVICE", "cpu")
    monkeypatch.setitem(sys.modules, "reference", sys)  # so that it is put back afterwards
    monkeypatch.setattr(graph_capture, "Recorder", Recorder)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: Tape.recording)
    with torch.random.fork_rng():
        yield


@pytest.fixture
def _mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a process in this one needs no mapping."""

    def window(handle: Any, address: int, size: int) -> torch.Tensor:
        return torch.frombuffer(
            (ctypes.c_ubyte * min(size, 512)).from_address(address), dtype=torch.uint8
        )

    monkeypatch.setattr(ProcessHandle, "mapped", window)


HONEST = "return torch.tanh(x) * 2"


def assert_measured(found: DeviceTiming) -> None:
    assert found.error is None
    assert found.speedup is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low <= found.speedup <= found.ci_high
    assert 0.2 < found.speedup < 5
    assert found.groups >= 3
    assert found.calls_per_side >= 2 * found.groups


SAME_BUFFER = "return KEPT.setdefault('y', torch.empty_like(x)).copy_(torch.tanh(x) * 2)"
ASKS_TWICE = 2
"""Times that the graphs are recorded where outputs have to be copied."""


@pytest.mark.parametrize("slots", [(24, 24), (24, 4)])
@pytest.mark.parametrize(
    "body", [HONEST, SAME_BUFFER, "return (torch.tanh(x) * 2).t().contiguous().t()"]
)
def test_replayed_calls_give_a_speedup_with_an_interval(
    tmp_path: Path, body: str, slots: tuple[int, int]
) -> None:
    benchmark = Benchmark(tmp_path, body, slots=slots)
    assert_measured(benchmark.take())
    assert not benchmark.runner.failed


@pytest.mark.usefixtures("_mapped")
@pytest.mark.parametrize(("body", "times"), [(HONEST, 1), (SAME_BUFFER, ASKS_TWICE)])
def test_outputs_are_read_where_the_graph_has_put_them_or_else_copied(
    tmp_path: Path, body: str, times: int
) -> None:
    benchmark = Benchmark(tmp_path, body)
    assert_measured(benchmark.take())
    captures = {
        side: process.asked.count(Command.CAPTURE) for side, process in benchmark.processes.items()
    }
    assert captures["c"] == times * captures["r"]


NO_GRAPH = "a graph holds the work"
STALE = (
    "if CAPTURING(): return KEPT['y']\n        KEPT['y'] = torch.tanh(x) * 2\n        return"
    " KEPT['y']"
)
UNWRITTEN = (
    "y = torch.empty_like(x)\n        return y if CAPTURING() else y.copy_(torch.tanh(x) * 2)"
)
ONE_LEFT_OUT = (
    "if CAPTURING() and CALLS.count(True) % 3 == 0: return KEPT['y']\n       "
    f" {STALE.partition('        ')[2]}"
)
OUTSIDE = "import numpy\n        return torch.from_numpy(numpy.tanh(x.numpy()) * 2)"
WAITS = "return torch.tanh(x) * (2 if x.sum().item() < 1e9 else 3)"
RAISES = "assert not CAPTURING(), 'not with me'\n        return torch.tanh(x) * 2"
OTHER_SHAPE = "return torch.tanh(x) * 2 if not CAPTURING() else x[:1]"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (STALE, NO_GRAPH),
        (UNWRITTEN, NO_GRAPH),
        (ONE_LEFT_OUT, NO_GRAPH),
        (OUTSIDE, NO_GRAPH),
        (
            WAITS,
            "candidate could not be captured and replayed: RuntimeError: operation not permitted",
        ),
        (RAISES, "candidate could not be captured and replayed: AssertionError: not with me"),
        (OTHER_SHAPE, "expected shape (16, 8), got (1, 8)"),
    ],
)
def test_a_candidate_that_cannot_be_captured_has_a_reason_and_stays_usable(
    tmp_path: Path, body: str, reason: str
) -> None:
    benchmark = Benchmark(tmp_path, body)
    found = benchmark.take()
    assert found.speedup is None
    assert found.ci_low is None
    assert reason in (found.error or "")
    assert not benchmark.runner.failed, "no verdict follows from it"
    assert not benchmark.discarded
    calls = benchmark.runner.record.calls
    benchmark.runner.try_calls(benchmark.runner.draw(2))
    assert (benchmark.runner.record.calls, benchmark.runner.failed) == (calls + 2, [])


def test_kernels_that_an_ablation_has_replaced_are_put_back_first(tmp_path: Path) -> None:
    benchmark = Benchmark(tmp_path, HONEST)
    benchmark.take()
    asked = benchmark.processes["c"].asked
    assert asked.index(Command.ABLATE) < asked.index(Command.CAPTURE)


def test_wrong_replays_are_found_where_some_calls_are_chosen(tmp_path: Path) -> None:
    found = Benchmark(tmp_path, STALE, slots=(24, 4)).take()
    assert NO_GRAPH in (found.error or "")


def test_a_candidate_whose_process_ends_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = Benchmark(tmp_path, HONEST)
    shim = benchmark.processes["c"].shim
    answer = shim.answer

    def ending(request: Any) -> Any:
        if request.command == Command.CAPTURE:
            raise EOFError
        return answer(request)

    monkeypatch.setattr(shim, "answer", ending)
    assert "the process exited with code 1" in (benchmark.take().error or "")
    assert not benchmark.discarded


def test_a_reference_that_cannot_be_captured_is_discarded(tmp_path: Path) -> None:
    guard = "assert not torch.cuda.is_current_stream_capturing(), 'it waits'"
    benchmark = Benchmark(tmp_path, HONEST, guard=guard)
    assert (
        benchmark.take().error
        == "the reference could not be captured and replayed: AssertionError: it waits"
    )
    assert benchmark.discarded == [benchmark.runner.reference.handle]


def test_the_reference_is_not_asked_where_the_candidate_cannot_be_captured(tmp_path: Path) -> None:
    benchmark = Benchmark(tmp_path, WAITS)
    benchmark.take()
    assert Command.CAPTURE not in benchmark.processes["r"].asked


@pytest.mark.parametrize(
    ("options", "surveys", "reason"),
    [
        ({}, False, "CUDA graphs need a GPU"),
        ({"slots": (1, 0)}, True, "memory holds a single call"),
        ({"more": ", 2.0"}, True, "numbers among the inputs"),
        ({"seconds": 0.0}, True, "no time was left"),
    ],
)
def test_nothing_is_captured_where_there_can_be_no_value(
    tmp_path: Path, options: dict[str, Any], surveys: bool, reason: str
) -> None:
    benchmark = Benchmark(tmp_path, HONEST, **options)
    benchmark.runner.surveys = surveys
    assert reason in (benchmark.take().error or "")
    assert not any(Command.CAPTURE in process.asked for process in benchmark.processes.values())


def test_no_counted_call_has_inputs_that_were_seen_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark, seen = Benchmark(tmp_path, HONEST), list[bytes]()
    fill = benchmark.runner.fill

    def watched(session: Session, batch: Any, first: int, count: int) -> int | None:
        if session is benchmark.runner.candidate:
            seen.extend(bytes(row.tolist()) for row in batch.inputs[first : first + count])
        return fill(session, batch, first, count)

    monkeypatch.setattr(benchmark.runner, "fill", watched)
    found = benchmark.take()
    warming = len(seen) - found.calls_per_side
    assert warming > 0
    assert len(set(seen[warming:])) == found.calls_per_side
    assert not set(seen[:warming]) & set(seen[warming:])


@given(
    st.integers(1, 200),
    st.integers(1, 200),
    st.floats(1, 1e5),
    st.floats(1, 1e5),
    st.floats(1, 1e5),
    st.floats(1, 1e5),
)
def test_blocks_take_whole_graphs_and_no_more_than_there_are(
    slots: int,
    in_block: int,
    wall_us: float,
    other_wall_us: float,
    reference_us: float,
    candidate_us: float,
) -> None:
    runner: Any = SimpleNamespace(
        slots=slots,
        in_block=in_block,
        draw_us=10.0,
        arena=SimpleNamespace(outputs=SimpleNamespace(leaves=[{}])),
    )
    graphs = {
        REFERENCE: device_time._plan(runner, 2000 / wall_us),
        CANDIDATE: device_time._plan(runner, 2000 / other_wall_us),
    }
    score: Any = SimpleNamespace(per_call_us=(reference_us, candidate_us), lasting_us=2000.0)
    most = max(
        each.enough(1.25 * 2000.0 / us)
        for each, us in zip(graphs.values(), score.per_call_us, strict=True)
    )
    for side, sizes in device_time._sizes(score, graphs, most).items():
        assert graphs[side].number <= device_time.GRAPHS[1]
        assert graphs[side].most <= max(1, min(slots // 2, in_block))
        for calls in sizes:
            assert 1 <= calls <= min(most, graphs[side].most)
            assert calls % graphs[side].calls == 0


def test_the_cpu_has_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(graph_capture.UncapturableError, match="the CPU device has no CUDA graphs"):
        graph_capture.Graphs().capture(0, 1, lambda first, count: ([0], []), torch.device("cpu"))


def test_graphs_are_played_in_whole_and_each_once() -> None:
    graphs, played = graph_capture.Graphs(), list[int]()

    def call(first: int, count: int) -> graph_capture.Outputs:
        torch.zeros(1)
        return [first + index for index in range(count)], []

    for first in (0, 3):
        graphs.capture(first, 3, call, torch.device("cpu"))
        tape: Any = graphs._captured[first].graph
        tape.replay = lambda first=first: played.append(first)
    assert graphs.play(0, 6) == [0, 1, 2, 3, 4, 5]
    assert graphs.play(3, 3) == [3, 4, 5]
    tiny: Any = graphs._hand_over
    tiny.replay = lambda: played.append(-1)
    assert graphs.play(0, 0) == []
    assert played == [0, 3, 3, -1]
    for first, count in ((0, 4), (1, 3), (0, 7)):
        with pytest.raises(graph_capture.UncapturableError, match="no graph"):
            graphs.play(first, count)
    graphs.capture(0, 0, call, torch.device("cpu"))
    with pytest.raises(graph_capture.UncapturableError):
        graphs.play(0, 3)
