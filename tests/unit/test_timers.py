"""Timers of a worker."""

from __future__ import annotations

from kombu.asynchronous.timer import Timer

from workers.worker.timers import forget_cancelled


def test_cancelled_timers_are_forgotten_and_others_fire_in_order() -> None:
    timer, fired = Timer(), list[int]()
    entries = [
        timer.call_after(0.001 * (9 - number), fired.append, (number,)) for number in range(10)
    ]
    due = timer.call_after(0, forget_cancelled, (timer,))
    for entry in entries[::2]:
        entry.cancel()
    due()
    assert len(timer._queue) == 6
    for _, entry in timer:
        if entry is not None:
            timer.apply_entry(entry)
        if len(fired) == 5:
            break
    assert fired == [9, 7, 5, 3, 1]
