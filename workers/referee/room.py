"""Device memory for several evaluations at once: each waits until what it is going to need is free.

Problems differ by five orders of magnitude.  Eight evaluations of a softmax fit on a GPU many times over, two with
inputs of a gigabyte do not.  So an evaluation says beforehand what it needs and waits its turn, and one that needs more
than there is has the device to itself.  While a large one waits, small ones that came later may go first, but only a
few of them: then everybody waits for it."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workers import spec
from workers.referee.cancel import Cancellation

LOOK_S = 0.2
"""How often somebody who waits looks whether his evaluation was cancelled."""

OVERTAKINGS = 3
"""So many who came later may go before one that does not fit yet.  None, and half of the memory lies idle whenever a
large one is at the head; any number, and a large one waits for ever."""

WORKING_SETS = 4
"""What a model computes with besides its inputs and outputs, in sizes of those: a guess that is right for most of
KernelBench; whoever needs more may run out of memory among others, and gets another try alone (evaluate.py)."""

CHECKING = 4
"""Temporaries of the comparison, in sizes of what is compared, where not every element is finite; else one or two."""


@dataclass(eq=False)
class Turn:
    """Of somebody who waits."""

    need: int
    """Bytes."""
    overtaken: int = 0


class Room:
    """Memory of one device, for any number of threads."""

    def __init__(self, total_bytes: int | None) -> None:
        """None: as much as anybody asks for."""
        self.total_bytes = total_bytes
        self._free = total_bytes or 0
        self._changed = threading.Condition()
        self._queue: deque[Turn] = deque()

    @contextmanager
    def hold(self, need_bytes: int, cancellation: Cancellation) -> Iterator[bool]:
        """That much memory for a while; says whether somebody else may have some meanwhile.

        Where it is cancelled while it waits it goes on at once: nothing is asked of the device any more."""
        if self.total_bytes is None:
            yield False
            return
        need = min(need_bytes, self.total_bytes)
        taken = self._take(need, cancellation)
        try:
            yield need < self.total_bytes
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()

    def _take(self, need: int, cancellation: Cancellation) -> int:
        turn = Turn(need)
        with self._changed:
            self._queue.append(turn)
            try:
                while not cancellation.asked:
                    before = list(itertools.takewhile(lambda other: other is not turn, self._queue))
                    if need <= self._free and all(map(self._may_be_overtaken, before)):
                        for other in before:
                            other.overtaken += 1
                        self._free -= need
                        return need
                    self._changed.wait(LOOK_S)
                return 0
            finally:
                self._queue.remove(turn)
                self._changed.notify_all()

    def _may_be_overtaken(self, turn: Turn) -> bool:
        """One that fits goes itself, as soon as it looks."""
        return turn.need > self._free and turn.overtaken < OVERTAKINGS


def needs(agreed: spec.Spec, place: spec.Arena, round_bytes: int, check_bytes: int) -> int:
    """Bytes of device memory that an evaluation takes, all its processes together; half of what it takes for moments.

    `round_bytes`: for inputs and outputs of a round, if more than two groups; where memory holds just one, it has all
    slots, and what is warmed up with half of them.  `check_bytes`: compared at once."""
    slots = place.inputs.slots
    one_call = place.inputs.slot_bytes + place.expected.slot_bytes
    arenas = place.reference_bytes + place.candidate_bytes
    copies = max(3 * slots * agreed.slot_bytes // 2, round_bytes)
    held = 2 * slots * place.outputs.slot_bytes  # outputs where the two models put them
    compared = max(place.expected.slot_bytes, min(check_bytes, slots * place.expected.slot_bytes))
    working = 2 * WORKING_SETS * one_call  # reference and candidate
    passing = CHECKING * compared + working  # hardly ever all at once, and those who run out try again alone
    return arenas + copies + held + passing // 2
