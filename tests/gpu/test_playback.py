"""Input sets that are played from a recording are those that Python would have made;
where not, nothing is played.
"""

import functools
import gc
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.specs import one_output

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

SLOTS = 7


class Arena:
    """The slots, in memory of this process alone."""

    def __init__(self, size: int) -> None:
        self.whole = torch.zeros(size, dtype=torch.uint8, device="cuda")

    def view(self, offset: int, dtype: Any, count: int) -> Any:
        return self.whole[offset : offset + count * dtype.itemsize].view(dtype)


def _drawn() -> object:
    return torch.randn(64, 33, device="cuda")


def _of_the_host() -> object:
    return torch.randn(64, 33, device="cuda") * random.random()


def _brought_from_the_host() -> object:
    return torch.randn(64, 33).to("cuda")


def _waiting() -> object:
    x = torch.randn(64, 33, device="cuda")
    return x * (2.0 if x.sum().item() > 0 else 1.0)


class Softmax(torch.nn.Module):
    """Keeps nothing."""

    def forward(self, x: Any) -> Any:
        return torch.softmax(x, 1)


class Product(torch.nn.Module):
    """A library that has a workspace for each stream."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(33, 33, device="cuda"))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            return x @ self.weight.to(x.dtype)


class Reusing(torch.nn.Module):
    """Writes every answer into the same memory, slowly: side by side, one would
    overwrite another.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.zeros(64, 33, dtype=torch.float64, device="cuda")

    def forward(self, x: Any) -> Any:
        self.memory.copy_(x)
        torch.cuda._sleep(100_000)
        return (self.memory * 2).to(x.dtype)


@functools.cache
def _memory() -> object:
    return torch.zeros(64, 33, dtype=torch.float64, device="cuda")


class ReusingACache(torch.nn.Module):
    """The same with memory of which the module knows nothing."""

    def forward(self, x: Any) -> Any:
        memory: Any = _memory()
        memory.copy_(x)
        torch.cuda._sleep(100_000)
        return (memory * 2).to(x.dtype)


def _place() -> Any:
    """Arena of a problem with one input and one output."""
    from workers.protocol import problem_spec

    return problem_spec.arena(one_output(torch.zeros(64, 33, device="cuda")), SLOTS)


def test_a_failed_recording_leaves_no_work_behind() -> None:
    """The work would write into memory that others use meanwhile."""
    from workers.shims.problem.graph_replay import Playback, Views

    calls = 0

    def fill(views: Views) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:  # the first two are made on the current stream
            torch.cuda._sleep(200_000_000)
            for region in views:
                region[0].fill_(1)
            raise RuntimeError("the host waits for the device")

    place = _place()
    arena: Any = Arena(place.reference_bytes)
    playback = Playback(torch.device("cuda", 0))
    assert playback.record(place, arena, fill, (Softmax(),)) is None
    others = [torch.zeros(1 << 16, device="cuda") for _ in range(64)]
    torch.cuda.synchronize()
    assert not any(bool(each.any()) for each in others)


@pytest.fixture
def eager_collection() -> Iterator[None]:
    """Garbage is collected as soon as anything is allocated."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager_collection")
def test_garbage_of_earlier_calls_that_is_collected_after_the_capture_does_not_count() -> None:
    """Calls that watch a model leave tensors in cycles of references."""
    from workers.shims.problem.graph_replay import Playback, Views

    def fill(views: Views) -> None:
        x = torch.randn(64, 33, device="cuda")
        views[0][0].copy_(x)
        views[1][0].copy_(x)
        views[2][0].copy_(x)
        if not torch.cuda.is_current_stream_capturing():
            cycle: list[object] = [x]
            cycle.append(cycle)

    place = _place()
    arena: Any = Arena(place.reference_bytes)
    playback = Playback(torch.device("cuda", 0))
    assert playback.record(place, arena, fill, ()) is not None


@pytest.mark.parametrize(
    ("draw", "model", "recorded"),
    [
        (_drawn, Softmax, True),
        (_drawn, Product, True),
        (_drawn, Reusing, True),
        (_drawn, ReusingACache, True),
        (_of_the_host, Softmax, False),
        (_brought_from_the_host, Softmax, False),
        (_waiting, Softmax, False),
    ],
)
def test_what_is_played_is_what_would_be_made(
    draw: Callable[[], Any], model: type[torch.nn.Module], recorded: bool
) -> None:
    from workers.shims.problem.graph_replay import Playback, Views

    module = model()

    def fill(views: Views) -> None:
        x = draw()
        views[0][0].copy_(x)
        views[1][0].copy_(module(x))
        views[2][0].copy_(module(x.double()))

    place = _place()
    arena: Any = Arena(place.reference_bytes)
    slots: list[Views] = [
        tuple(
            region.views(arena, slot) for region in (place.inputs, place.baseline, place.expected)
        )
        for slot in range(SLOTS)
    ]
    playback = Playback(torch.device("cuda", 0))
    recording = playback.record(place, arena, fill, (module,))
    assert (recording is not None) is recorded
    assert playback.given_up is not recorded
    torch.manual_seed(3)
    for views in slots:
        fill(views)
    made = arena.whole.clone()
    inputs = made[place.inputs.start : place.inputs.stop].view(SLOTS, -1)
    assert len(torch.unique(inputs, dim=0)) == SLOTS
    if recording is not None:
        torch.manual_seed(3)
        arena.whole.zero_()
        recording.play(0, SLOTS)
        assert torch.equal(arena.whole, made)
