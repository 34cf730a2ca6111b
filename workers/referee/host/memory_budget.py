"""Admission by device memory: each evaluation waits until the memory that it will need is free.

Problems differ by five orders of magnitude.  Eight evaluations of a softmax fit on a GPU
many times over, two with inputs of a gigabyte do not.  So an evaluation states its need
beforehand and waits its turn, and one that needs more than there is has the device to
itself.  While a large one waits, later ones may go first: any number that fit beside it, and
a few that do not; then all wait for it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

LOOK_S = 0.2
"""Seconds between a waiting evaluation's checks for cancellation and free memory."""

SETTLING_S = 5.0
"""Seconds that an evaluation alone on the device waits for the memory of ended processes."""

FOREIGN_S = 60.0
"""Seconds that an evaluation which fits on the device waits for memory held by other programs."""

OVERTAKINGS = 3
"""Later evaluations that may go before one and take memory that it needs: with no limit, a large
one would wait for ever.  Those that fit beside it do not delay it and are not counted.
"""


class Cancellable(Protocol):
    """An evaluation that another thread may cancel."""

    requested: bool
    """True once the cancellation has been requested."""


@dataclass(eq=False)
class Turn:
    """Turn of a waiting evaluation."""

    need: int
    """Bytes."""
    resident: int = 0
    """Bytes of them that its processes have already."""
    overtaken: int = 0
    """Overtakings that may delay it."""
    beside: set[Turn] = field(default_factory=set)
    """Turns that have overtaken it and still hold memory."""
    since: float | None = None
    """Time (time.monotonic) since when other programs have been found to hold the
    memory, while no evaluation did.
    """


UNLIMITED = 1 << 60
"""Bytes; more than any device has."""


class NoRoomError(RuntimeError):
    """Other programs hold the memory that an evaluation needs: an infrastructure fault."""


class NotAtOnceError(Exception):
    """An evaluation would have to wait for memory, and does not want to."""


class MemoryBudget:
    """Memory of one device.  Thread-safe."""

    def __init__(
        self,
        total_bytes: int | None,
        free_bytes: Callable[[], int] = lambda: UNLIMITED,
        give_back: Callable[[], None] = lambda: None,
        is_settled: Callable[[], bool] = lambda: True,
        release_cache: Callable[[], None] = lambda: None,
        slack_bytes: int = 0,
    ) -> None:
        """`total_bytes`: memory for all evaluations together; None for unlimited.  `free_bytes`:
        memory free on the device now.  `give_back`: ends idle processes that hold memory.
        `is_settled`: whether the memory of ended processes is free by now.  `release_cache`:
        releases memory that the referee caches, which no other process can take.  `slack_bytes`:
        idle processes are also ended where evaluations leave less than that: they are not part of
        the total, and evaluations in flight take what they have reserved later.
        """
        self._slack_bytes = slack_bytes
        self._release_cache = release_cache
        self._is_settled = is_settled
        self.total_bytes = total_bytes
        self._free_bytes = free_bytes
        self._give_back = give_back
        self._free = total_bytes or 0
        self._changed = threading.Condition()
        self._queue: deque[Turn] = deque()

    @contextmanager
    def hold(
        self,
        need_bytes: int,
        cancellation: Cancellable,
        resident_bytes: int = 0,
        *,
        waits: bool = True,
    ) -> Iterator[bool]:
        """Hold that much memory; yields whether another evaluation may hold some
        meanwhile.  `resident_bytes`: part of it that the evaluation's processes have
        already, so that it is not free on the device.

        A cancelled evaluation stops waiting at once and uses no memory.  Raises NoRoomError if
        other programs hold the memory for long, and NotAtOnceError for one that never `waits`.
        """
        if self.total_bytes is None:
            yield False
            return
        turn = Turn(min(need_bytes, self.total_bytes), min(resident_bytes, need_bytes))
        taken = self._take(turn, cancellation, waits=waits)
        try:
            yield turn.need < self.total_bytes
        finally:
            with self._changed:
                self._free += taken
                for other in self._queue:
                    other.beside.discard(turn)
                self._changed.notify_all()

    def _take(self, turn: Turn, cancellation: Cancellable, *, waits: bool) -> int:
        with self._changed:
            self._queue.append(turn)
            try:
                while not cancellation.requested:
                    before = list(itertools.takewhile(lambda other: other is not turn, self._queue))
                    planned = turn.need <= self._free and all(
                        self._may_overtake(turn, other) for other in before
                    )
                    if planned and self._is_there(turn):
                        for other in before:
                            other.overtaken += not self._fits_beside(turn, other)
                            other.beside.add(turn)
                        self._free -= turn.need
                        if self._free < self._slack_bytes:
                            self._give_back()
                        return turn.need
                    if not waits:
                        raise NotAtOnceError
                    self._changed.wait(LOOK_S)
                return 0
            finally:
                self._queue.remove(turn)
                self._changed.notify_all()

    def _is_there(self, turn: Turn) -> bool:
        """Test whether the device has that much.  Idle processes are ended first; an evaluation
        alone on the device makes do with the memory that is free then, and so does one that
        lacks only the memory of waiting evaluations' references.
        """
        missing = turn.need - turn.resident
        if turn.need == self.total_bytes:
            self._release_cache()  # it may need more than it could reserve
        elif self._has_free(missing):
            return True
        self._give_back()
        if self._has_free(missing):
            return True
        if self._free != self.total_bytes:
            turn.since = None  # the memory may be that of other evaluations
            return False
        turn.since = turn.since or time.monotonic()
        waited_s = time.monotonic() - turn.since
        if turn.need == self.total_bytes:
            return self._is_settled() or waited_s > SETTLING_S
        residents = sum(other.resident for other in self._queue if other is not turn)
        if missing <= self._free_bytes() + residents and waited_s > SETTLING_S:
            return True  # references of waiting evaluations have it, for which none will leave
        if waited_s > FOREIGN_S:
            free = self._free_bytes()
            raise NoRoomError(
                f"expected {missing:,} bytes of device memory, other programs leave {free:,}"
            )
        return False

    def _has_free(self, missing_bytes: int) -> bool:
        """Test whether the device has that much free, if necessary without the referee's cache."""
        if missing_bytes <= self._free_bytes():
            return True
        self._release_cache()
        return missing_bytes <= self._free_bytes()

    def _may_overtake(self, turn: Turn, other: Turn) -> bool:
        """Test whether a turn may go before an earlier one that does not fit now; one that fits
        goes itself at its next check.
        """
        return other.need > self._free and (
            self._fits_beside(turn, other) or other.overtaken < OVERTAKINGS
        )

    def _fits_beside(self, turn: Turn, other: Turn) -> bool:
        """Test whether a turn, with all that have overtaken an earlier one, leaves
        that one the memory it needs.
        """
        assert self.total_bytes is not None
        return other.need + turn.need + sum(each.need for each in other.beside) <= self.total_bytes
