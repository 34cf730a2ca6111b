"""What pages compute before a template draws it: changes, diffs, marked lines, colours of logs, roofs, agreement."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain import comparison, review
from app.domain.comparison import Outcome
from app.domain.evaluation import Block, Correctness, Environment, Evaluation, OutputCheck, Status, Timing, Trial
from app.domain.profile import KernelRow, Profile
from app.domain.verdict import Finding, Label
from app.web import change, checks, clocks, code, measured, roofline, spans, text

HERE = Environment(
    device_class="h200",
    device_name="NVIDIA H200",
    device_id="GPU-0",
    node="here",
    python="3.11",
    torch="2.13",
    triton="3.7",
    bandwidth_gb_s=4000.0,
)


def evaluation_of(*, speedup: float, reference_us: float = 1000.0, handover_us: float = 100.0) -> Evaluation:
    """A passed one with four groups of blocks and five verified calls."""
    candidate_us = reference_us / speedup
    sides = [("reference", reference_us), ("candidate", candidate_us), ("candidate", candidate_us)]
    blocks = [
        Block(group=group, side=side, calls=8, wall_us=handover_us + 8 * per_call_us, claimed_us=None)
        for group in range(4)
        for side, per_call_us in [*sides, sides[0]]
    ]
    output = OutputCheck(
        index=0,
        dtype="float32",
        shape=(4, 4),
        ok=True,
        rel_l2=1e-7,
        rel_l2_limit=1e-5,
        max_norm=1e-6,
        max_norm_limit=1e-3,
        nonfinite_mismatches=0,
        unwritten=0,
        stale_call=None,
    )
    return Evaluation(
        status=Status.PASSED,
        environment=HERE,
        seed="00",
        correctness=Correctness(
            calls=5,
            failed_calls=0,
            trials=tuple(Trial(call=n, seed=f"{n:02x}", ok=True, outputs=(output,)) for n in range(5)),
            mode="train",
        ),
        timing=Timing(
            reference_us=reference_us,
            candidate_us=candidate_us,
            speedup=speedup,
            ci_low=speedup * 0.98,
            ci_high=speedup * 1.02,
            groups=4,
            calls_per_side=64,
            handover_us=handover_us,
            candidate_handover_us=handover_us,
            claimed_us=None,
            floor_us=10.0,
            stop_reason="precise",
            blocks=tuple(blocks),
        ),
        profile=Profile(kernels=(), calls=1, coverage_time=None, coverage_count=None, source="recorder"),
    )


def test_a_ratio_says_who_is_faster_or_that_nobody_knows() -> None:
    fast, slow = evaluation_of(speedup=2.0).timing, evaluation_of(speedup=1.0).timing
    assert fast is not None
    assert slow is not None
    assert comparison.ratio(fast, slow).outcome is Outcome.A_FASTER
    assert comparison.ratio(slow, fast).outcome is Outcome.B_FASTER
    assert comparison.ratio(fast, replace(fast, speedup=2.01)).outcome is Outcome.NO_DIFFERENCE
    there, back = comparison.ratio(fast, slow), comparison.ratio(slow, fast)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


def test_agreement_is_more_than_chance() -> None:
    assert review.agreement([]).kappa is None
    assert review.agreement([("clean", "clean")] * 3).kappa is None  # chance alone would agree always
    assert review.agreement([("clean", "clean"), ("hack", "hack")]).kappa == 1
    half = review.agreement([("clean", "clean"), ("clean", "hack"), ("hack", "clean"), ("hack", "hack")])
    assert (half.same, half.both, half.kappa) == (2, 4, 0)


def test_kernels_are_joined_by_name_per_call() -> None:
    def profiled(*rows: KernelRow, calls: int) -> Profile:
        return Profile(kernels=rows, calls=calls, coverage_time=None, coverage_count=None, source="recorder")

    before = profiled(
        KernelRow(name="mm", launches=4, total_us=80.0, custom=True),
        KernelRow(name="fill", launches=1, total_us=1.0, custom=False),
        calls=2,
    )
    after = profiled(
        KernelRow(name="mm", launches=2, total_us=10.0, custom=True),
        KernelRow(name="mm", launches=2, total_us=10.0, custom=True),
        KernelRow(name="sum", launches=1, total_us=2.0, custom=True),
        calls=1,
    )
    joined = {each.name: (each.kind, each.ratio) for each in change.kernels(before, after)}
    assert joined == {"mm": ("same", 2.0), "sum": ("new", None), "fill": ("gone", None)}
    assert change.kernels(None, None) == []


def test_a_change_says_in_words_what_its_colour_says() -> None:
    slow, fast = evaluation_of(speedup=1.0), evaluation_of(speedup=2.0)
    by_name = {each.name: each for each in change.figures(slow, fast)}
    assert (by_name["Speedup, measured"].change, by_name["Speedup, measured"].tone) == ("2.00× better", "good")
    assert by_name["Reference, per call"].tone == ""
    assert by_name["Reference, per call"].change == "same"
    assert {each.change for each in change.figures(None, fast)} == {"now measured"}


def test_both_ways_of_showing_a_diff_hold_the_same() -> None:
    old, new = b"a = 1\nb = 2\nc = 3\n", b"a = 1\nb = 4\nb = 5\nc = 3\n"
    found = code.diff(old, new)
    assert (found.added, found.removed) == (2, 1)
    assert [(pair.old and pair.old.kind, pair.new and pair.new.kind) for pair in found.pairs] == [
        ("same", "same"),
        ("removed", "added"),
        (None, "added"),
        ("same", "same"),
    ]
    assert "k-mi" in found.lines[1].text


def test_blanks_may_be_ignored() -> None:
    assert code.diff(b"x=1\n", b"x = 1\n").added == 1
    assert code.diff(b"x=1\n", b"x = 1\n", ignore_space=True).lines == ()


def test_a_diff_of_hostile_text_is_escaped() -> None:
    hostile = "</script>\n\x00 \u202e '\n".encode()
    shown = "".join(str(line.text) for line in code.diff(b"", hostile).lines)
    assert "<script" not in shown
    assert "</script>" not in shown
    assert "\u202e" not in shown


def test_findings_mark_the_lines_that_they_name() -> None:
    hint = {"why": "reads the cache", "line": 3, "end_line": 4, "text": "_CACHE[x]"}
    finding = Finding(
        detector="static_hints",
        version=1,
        label=Label.SUSPECT,
        summary="a cache",
        evidence={"hints": [hint, {"line": "x"}]},
    )
    elsewhere = replace(finding, evidence={"file": "reference", "line": 1})
    found = spans.of_candidate([finding, elsewhere])
    assert [(span.first, span.last, span.why) for span in found] == [(3, 4, "reads the cache")]
    assert spans.marks(found) == {3: "static hints: reads the cache", 4: "static hints: reads the cache"}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", '<span class="ansi-31">red</span>'),
        ("\x1b[1;92mgo\x1b[39m on", '<span class="ansi-1 ansi-32">go</span><span class="ansi-1"> on</span>'),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b[38;5;196mx", "x"),
        ("<b>&\x1b[31m<i>", '&lt;b&gt;&amp;<span class="ansi-31">&lt;i&gt;</span>'),
        ("\x1b[999999999m\x1b[;;;mplain", "plain"),
    ],
)
def test_of_terminal_escapes_only_colours_are_shown(raw: str, shown: str) -> None:
    assert str(text.log(raw)) == shown


def test_what_is_cut_says_how_much() -> None:
    capped = text.capped("x" * 10, limit=4)
    assert (capped.text, capped.total, capped.hidden) == ("xxxx", 10, 6)


def test_checks_are_laid_out_by_variant_with_the_own_first() -> None:
    measured = evaluation_of(speedup=1.0).correctness
    assert measured is not None
    first, *rest = measured.trials
    grid = checks.grid(replace(measured, trials=(replace(first, variant="sparse", ok=False), *rest)))
    assert [(row.variant, row.wrong, len(row.cells)) for row in grid] == [("own", 0, 4), ("sparse", 1, 1)]
    assert all(cell.share is not None and cell.share < 1 for cell in grid[0].cells)


def test_a_roof_needs_what_had_to_be_done() -> None:
    measured = evaluation_of(speedup=2.0)
    assert measured.profile is not None
    assert measured.timing is not None
    full = replace(measured, profile=replace(measured.profile, bytes_moved=1 << 20, flops=1 << 24, floor_us=100.0))
    found = roofline.roofline(full)
    assert found is not None
    assert found.intensity == 16
    assert len(found.roof) >= 2
    by_side = {point.side: point for point in found.points}
    assert by_side["limit"].share == 1
    assert by_side["candidate"].share == pytest.approx(100.0 / measured.timing.candidate_us)
    assert by_side["candidate"].y is not None
    assert by_side["reference"].y is not None
    assert by_side["candidate"].y < by_side["reference"].y  # upwards is faster
    assert roofline.roofline(replace(measured, timing=None)) is None


def test_clocks_are_drawn_where_they_were_read() -> None:
    timing = evaluation_of(speedup=1.0).timing
    assert timing is not None
    assert clocks.strip(timing) is None
    rng = random.Random(1)
    blocks = [replace(block, sm_clock_mhz=rng.randint(1500, 1980), temperature_c=50) for block in timing.blocks]
    found = clocks.strip(replace(timing, blocks=tuple(blocks)))
    assert found is not None
    assert 1500 <= found.low_mhz <= found.high_mhz <= 1980
    assert found.temperature_c == (50, 50)
    assert len(found.points.split()) == sum(block.calls > 0 for block in blocks)


def test_every_stage_that_the_referee_takes_the_time_of_has_its_place() -> None:
    folder = Path(__file__).parents[2] / "workers" / "referee"
    taken = {name for path in folder.glob("*.py") for name in re.findall(r'stage\("(\w+)"\)', path.read_text())}
    assert taken == set(measured.STAGES)
