from __future__ import annotations

from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.web import correctness_table


def _output(
    index: int, *, ok: bool = True, unwritten: int = 0, stale_call: int | None = None
) -> OutputCheck:
    return OutputCheck(
        index=index,
        dtype="float32",
        shape=(2, 3),
        ok=ok,
        rel_l2=1e-7,
        rel_l2_limit=1e-5,
        max_norm=None,
        max_norm_limit=1e-3,
        nonfinite_mismatches=0,
        unwritten=unwritten,
        stale_call=stale_call,
    )


def _correctness(*trials: Trial) -> Correctness:
    return Correctness(calls=len(trials), failed_calls=0, trials=trials, mode="train")


def test_a_line_per_output_spanning_its_call() -> None:
    trial = Trial(call=0, seed="ab", ok=True, outputs=(_output(0), _output(1)))
    assert [
        (line.output.index, line.span)
        for line in correctness_table.lines(_correctness(trial))
        if line.output
    ] == [
        (0, 2),
        (1, 0),
    ]


def test_notes_say_what_is_notable_of_which_output() -> None:
    outputs = (_output(0, stale_call=3), _output(1, ok=False, unwritten=6))
    trial = Trial(
        call=4, seed="ab", ok=False, outputs=outputs, inputs_changed=(0, 2), late_writes=(1,)
    )
    first, second = correctness_table.lines(_correctness(trial))
    assert first.notes == ("the answer of call 3", "inputs changed: 0, 2")
    assert second.notes == ("6 elements never written", "written after it was done")
    assert (first.ok, second.ok) == (True, False)


def test_a_call_without_outputs_has_a_line() -> None:
    (line,) = correctness_table.lines(_correctness(Trial(call=0, seed="ab", ok=False, outputs=())))
    assert (line.output, line.ok, line.span) == (None, False, 1)
