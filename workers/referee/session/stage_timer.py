"""Times of an evaluation's stages, for its stage times and its timeline (Chrome's
trace event format).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.domain.evaluation import Block
from workers.protocol.launch_records import Launch


class Stages:
    """Record of named time spans."""

    def __init__(self) -> None:
        """A record that starts now."""
        self._began = time.perf_counter_ns()
        self._spans: list[tuple[str, float, float]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the enclosed code as a stage; a name may occur several times."""
        began = self._now_us()
        try:
            yield
        finally:
            self._spans.append((name, began, self._now_us() - began))

    def _now_us(self) -> float:
        return (time.perf_counter_ns() - self._began) / 1000

    def milliseconds(self) -> dict[str, float]:
        """Stage → milliseconds, with `total`."""
        sums = {"total": self._now_us() / 1000}
        for name, _, duration in self._spans:
            sums[name] = sums.get(name, 0.0) + duration / 1000
        return sums

    def chrome_trace(
        self, blocks: tuple[Block, ...] = (), launches: Sequence[Launch] = ()
    ) -> bytes:
        """Complete events: stages in one row; blocks in two, end to end, since only their durations
        are stored; and the device's work in the profiled call, one row per stream.
        """
        events = [_event(name, began, duration, row=1) for name, began, duration in self._spans]
        at = next((began for name, began, _ in self._spans if name == "timing"), 0.0)
        for block in blocks:
            row = 2 if block.side == "reference" else 3
            events.append(
                _event(
                    f"{block.side} × {block.calls}", at, block.wall_us, row=row, group=block.group
                )
            )
            at += block.wall_us
        at = next((began for name, began, _ in self._spans if name == "profile"), 0.0)
        streams = sorted({launch.stream for launch in launches})
        events += [_kernel(launch, at, row=4 + streams.index(launch.stream)) for launch in launches]
        names = {1: "stages", 2: "blocks of the reference", 3: "blocks of the candidate"}
        names |= {
            4 + place: f"profiled call, stream {stream}" for place, stream in enumerate(streams)
        }
        seen = {event["tid"] for event in events}
        events += [_name("thread_name", row, name) for row, name in names.items() if row in seen]
        if events:
            events.append(_name("process_name", 1, "evaluation"))
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()


def _kernel(launch: Launch, began_us: float, *, row: int) -> dict[str, object]:
    known = {
        "origin": launch.origin,
        "grid": launch.grid,
        "block": launch.block,
        "registers": launch.registers,
        "shared bytes": launch.shared_bytes,
    }
    arguments = {name: value for name, value in known.items() if value is not None}
    at = began_us + launch.start_ns / 1000
    return _event(launch.name, at, launch.duration_ns / 1000, row=row, **arguments)


def _name(kind: str, row: int, name: str) -> dict[str, object]:
    """Metadata event: viewers write the name beside the row."""
    return {"name": kind, "ph": "M", "pid": 1, "tid": row, "args": {"name": name}}


def _event(
    name: str, began_us: float, duration_us: float, *, row: int, **arguments: object
) -> dict[str, object]:
    return {
        "name": name,
        "ph": "X",
        "ts": began_us,
        "dur": duration_us,
        "pid": 1,
        "tid": row,
        "args": arguments,
    }
