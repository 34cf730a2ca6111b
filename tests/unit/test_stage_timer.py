"""The timeline of an evaluation: rows with names."""

from __future__ import annotations

import json

from app.domain.evaluation import Block
from workers.protocol.launch_records import Launch
from workers.referee.session.stage_timer import Stages


def launch(stream: int) -> Launch:
    return Launch(name="k", origin="triton", start_ns=0, duration_ns=5, stream=stream)


def test_rows_of_a_timeline_have_names() -> None:
    stages = Stages()
    with stages.stage("timing"):
        pass
    blocks = tuple(
        Block(group=0, side=side, calls=2, wall_us=9.0, claimed_us=None)
        for side in ("reference", "candidate")
    )
    events = json.loads(stages.chrome_trace(blocks, [launch(7), launch(13)]))["traceEvents"]
    named = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert named == {
        1: "stages",
        2: "blocks of the reference",
        3: "blocks of the candidate",
        4: "profiled call, stream 7",
        5: "profiled call, stream 13",
    }
    assert {event["tid"] for event in events if event["ph"] == "X"} == named.keys()


def test_rows_without_events_have_no_name() -> None:
    assert json.loads(Stages().chrome_trace())["traceEvents"] == []
