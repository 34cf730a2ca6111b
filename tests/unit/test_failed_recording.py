"""A recording of a CUDA graph that fails leaves no work on its streams that others do not wait for.
torch's streams are pretended.
"""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.shims import graph_capture
from workers.shims.problem import graph_replay

DEVICE = torch.device("cuda", 0)


class Stream:
    """Records the streams that a stream waits for."""

    def __init__(self, *_: object) -> None:
        self.waits_for: list[Stream] = []

    def wait_stream(self, other: "Stream") -> None:
        self.waits_for.append(other)

    def synchronize(self) -> None: ...


class Cuda:
    """The parts of torch.cuda that recordings use."""

    def __init__(self) -> None:
        self.current = self.main = Stream()

    @contextmanager
    def stream(self, stream: Stream) -> Any:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = SimpleNamespace(clone_state=lambda: "state", graphsafe_set_state=lambda _: None)
        graph = SimpleNamespace(capture_begin=lambda **_: None, capture_end=lambda: None)
        for name, value in {
            "Stream": Stream,
            "stream": self.stream,
            "current_stream": lambda: self.current,
            "default_generators": [state],
            "CUDAGraph": lambda: graph,
            "graph_pool_handle": lambda: (0, 0),
            "memory_allocated": lambda: 0,
            "set_sync_debug_mode": lambda _: None,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    made.install(monkeypatch)
    return made


def waits_for_the_device() -> None:
    raise RuntimeError("called a synchronizing CUDA operation")


@pytest.mark.parametrize("waits", [True, False])
def test_input_sets(cuda: Cuda, waits: bool) -> None:
    playback = graph_replay.Playback(DEVICE)
    scratch: Any = SimpleNamespace(views=[([], [], [])] * graph_replay.SETS, whole=torch.zeros(1))
    graph = playback._captured(
        scratch, lambda _: waits_for_the_device() if waits else None, graph_replay.SETS
    )
    assert (graph is None) is waits
    assert len(playback._streams) == graph_replay.SETS
    assert cuda.main.waits_for == playback._streams


@pytest.mark.parametrize("fails_in", ["warm_up", "body"])
def test_calls(cuda: Cuda, fails_in: str) -> None:
    recorder = graph_capture.Recorder(DEVICE)
    work = {"warm_up": lambda: None, "body": lambda: None, fails_in: waits_for_the_device}
    with pytest.raises(RuntimeError, match="synchronizing"):
        recorder.record(**work)
    assert cuda.main.waits_for == [recorder._stream]
