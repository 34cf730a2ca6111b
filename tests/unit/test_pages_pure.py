"""Figures that pages compute for templates: changes, diffs, marked lines, colours of
logs, roofs, agreement.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain import review, speedup_ratio
from app.domain import roofline as domain_roofline
from app.domain.evaluation import FLOOR_HEADROOM, Block, Environment, Evaluation, Status, Timing
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.domain.speedup_ratio import Comparison, ComparisonResult
from app.domain.verdict import Finding, Label
from app.routing import DEVICE_CLASSES
from app.web import (
    correctness_table,
    evaluation_diff,
    evaluation_view,
    finding_lines,
    safe_text,
    source_view,
)
from app.web.charts import gpu_clocks, roofline
from workers.referee.host import bandwidth as bandwidth_limits

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


def evaluation_of(
    *, speedup: float, reference_us: float = 1000.0, handover_us: float = 100.0
) -> Evaluation:
    """A passed one with four groups of blocks and five verified calls."""
    candidate_us = reference_us / speedup
    sides = [("reference", reference_us), ("candidate", candidate_us), ("candidate", candidate_us)]
    blocks = [
        Block(
            group=group, side=side, calls=8, wall_us=handover_us + 8 * per_call_us, claimed_us=None
        )
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
            trials=tuple(
                Trial(call=n, seed=f"{n:02x}", ok=True, outputs=(output,)) for n in range(5)
            ),
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
        profile=Profile(
            kernels=(), calls=1, coverage_time=None, coverage_count=None, source="recorder"
        ),
    )


def test_a_ratio_names_the_faster_side_or_neither() -> None:
    fast, slow = (
        speedup_ratio.Speed(speedup=s, ci_low=0.98 * s, ci_high=1.02 * s) for s in (2.0, 1.0)
    )
    assert speedup_ratio.ratio(fast, slow).outcome is ComparisonResult.A_FASTER
    assert speedup_ratio.ratio(slow, fast).outcome is ComparisonResult.B_FASTER
    assert (
        speedup_ratio.ratio(fast, replace(fast, speedup=2.01)).outcome
        is ComparisonResult.NO_DIFFERENCE
    )
    there, back = speedup_ratio.ratio(fast, slow), speedup_ratio.ratio(slow, fast)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


def test_agreement_is_more_than_chance() -> None:
    assert review.agreement([]).kappa is None
    assert (
        review.agreement([("clean", "clean")] * 3).kappa is None
    )  # chance alone would agree always
    assert review.agreement([("clean", "clean"), ("hack", "hack")]).kappa == 1
    half = review.agreement(
        [("clean", "clean"), ("clean", "hack"), ("hack", "clean"), ("hack", "hack")]
    )
    assert (half.same, half.both, half.kappa) == (2, 4, 0)


def test_kernels_are_joined_by_name_per_call() -> None:
    def profiled(*rows: KernelRow, calls: int) -> Profile:
        return Profile(
            kernels=rows, calls=calls, coverage_time=None, coverage_count=None, source="recorder"
        )

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
    joined = {each.name: (each.kind, each.ratio) for each in evaluation_diff.kernels(before, after)}
    assert joined == {"mm": ("same", 2.0), "sum": ("new", None), "fill": ("gone", None)}
    assert evaluation_diff.kernels(None, None) == []


def comparison_of(
    after: Evaluation | None, before: Evaluation | None, label: str = "clean"
) -> Comparison:
    return speedup_ratio.compared(
        evaluation_diff.side(after, label, "eager", "softmax"),
        evaluation_diff.side(before, "clean", "eager", "softmax"),
    )


def test_a_change_is_better_or_worse_only_where_the_intervals_say_so() -> None:
    slow, fast, near = (
        evaluation_of(speedup=1.0),
        evaluation_of(speedup=2.0),
        evaluation_of(speedup=1.02),
    )

    def shown(after: Evaluation, before: Evaluation, label: str = "clean") -> tuple[str, str]:
        found = evaluation_diff.figures(before, after, comparison_of(after, before, label))
        one = next(each for each in found if each.name == "Speedup, measured")
        return one.change, one.tone

    assert shown(fast, slow) == ("2.00× more, better", "good")
    assert shown(slow, fast) == ("2.00× less, worse", "bad")
    assert shown(near, slow) == ("1.02× more, no difference within the intervals", "")
    assert shown(slow, near) == ("1.02× less, no difference within the intervals", "")
    assert shown(fast, slow, "hack") == ("2.00× more, not comparable", "")


def test_a_figure_of_one_side_is_not_compared() -> None:
    fast = evaluation_of(speedup=2.0)
    found = evaluation_diff.figures(None, fast, comparison_of(fast, None))
    assert {each.change for each in found} == {"now measured"}
    assert {each.tone for each in found} == {""}


def test_both_ways_of_showing_a_diff_hold_the_same() -> None:
    old, new = b"a = 1\nb = 2\nc = 3\n", b"a = 1\nb = 4\nb = 5\nc = 3\n"
    found = source_view.diff(old, new)
    assert (found.added, found.removed) == (2, 1)
    assert [(pair.old and pair.old.kind, pair.new and pair.new.kind) for pair in found.pairs] == [
        ("same", "same"),
        ("removed", "added"),
        (None, "added"),
        ("same", "same"),
    ]
    assert "k-mi" in found.lines[1].text


def test_blanks_may_be_ignored() -> None:
    assert source_view.diff(b"x=1\n", b"x = 1\n").added == 1
    assert source_view.diff(b"x=1\n", b"x = 1\n", ignore_space=True).lines == ()


def test_a_diff_of_hostile_text_is_escaped() -> None:
    hostile = "</script>\n\x00 \u202e '\n".encode()
    shown = "".join(str(line.text) for line in source_view.diff(b"", hostile).lines)
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
    found = finding_lines.of_candidate([finding, elsewhere])
    assert [(span.first, span.last, span.why) for span in found] == [(3, 4, "reads the cache")]
    assert finding_lines.marks(found) == {
        3: "static hints: reads the cache",
        4: "static hints: reads the cache",
    }


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", '<span class="ansi-31">red</span>'),
        (
            "\x1b[1;92mgo\x1b[39m on",
            '<span class="ansi-1 ansi-32">go</span><span class="ansi-1"> on</span>',
        ),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b[38;5;196mx", "x"),
        ("<b>&\x1b[31m<i>", '&lt;b&gt;&amp;<span class="ansi-31">&lt;i&gt;</span>'),
        ("\x1b[999999999m\x1b[;;;mplain", "plain"),
    ],
)
def test_of_terminal_escapes_only_colours_are_shown(raw: str, shown: str) -> None:
    assert str(safe_text.log(raw)) == shown


def test_what_is_cut_says_how_much() -> None:
    capped = safe_text.capped("x" * 10, limit=4)
    assert (capped.text, capped.total, capped.hidden) == ("xxxx", 10, 6)


def test_checks_are_laid_out_by_variant_with_the_own_first() -> None:
    measured = evaluation_of(speedup=1.0).correctness
    assert measured is not None
    first, *rest = measured.trials
    grid = correctness_table.grid(
        replace(measured, trials=(replace(first, variant="sparse", ok=False), *rest))
    )
    assert [(row.variant, row.wrong, len(row.cells)) for row in grid] == [
        ("own", 0, 4),
        ("sparse", 1, 1),
    ]
    assert all(cell.share is not None and cell.share < 1 for cell in grid[0].cells)


def test_a_roof_needs_what_had_to_be_done() -> None:
    measured = evaluation_of(speedup=2.0)
    assert measured.profile is not None
    assert measured.timing is not None
    full = replace(
        measured,
        profile=replace(measured.profile, bytes_moved=1 << 20, flops=1 << 24, floor_us=100.0),
    )
    found = roofline.roofline(full)
    assert found is not None
    assert found.intensity == 16
    assert len(found.roof) >= 2
    by_side = {point.side: point for point in found.points}
    assert by_side["limit"].share == 1
    bandwidth = measured.environment.bandwidth_gb_s
    assert bandwidth is not None
    limit_us = (1 << 20) / bandwidth / 1e3
    assert by_side["limit"].gb_s == pytest.approx(bandwidth), "the limit is the measured bandwidth"
    assert by_side["candidate"].share == pytest.approx(limit_us / measured.timing.candidate_us)
    assert by_side["candidate"].y is not None
    assert by_side["reference"].y is not None
    assert by_side["candidate"].y < by_side["reference"].y  # upwards is faster
    assert roofline.roofline(replace(measured, timing=None)) is None
    assert found.peaks.startswith("FP32 66.9, TF32")


def test_a_roof_is_flat_where_arithmetic_is_the_limit() -> None:
    measured = evaluation_of(speedup=2.0)
    assert measured.profile is not None
    assert measured.timing is not None
    flops = 1 << 34
    timing = replace(measured.timing, reference_us=400.0, candidate_us=100.0)
    found = roofline.roofline(
        replace(
            measured,
            timing=timing,
            profile=replace(measured.profile, bytes_moved=1 << 20, flops=flops),
        )
    )
    assert found is not None
    by_side = {point.side: point for point in found.points}
    assert by_side["limit"].gflop_s == pytest.approx(989_400), "dense BF16, by the data sheet"
    assert by_side["candidate"].share == pytest.approx(flops / 989_400e9 * 1e6 / 100)
    (_, knee), (_, end) = found.roof[-2:]
    assert knee == end == by_side["limit"].y
    assert [each.label for each in found.ceilings] == ["FP32", "TF32"]
    assert found.ceilings[0].y > found.ceilings[1].y > end


def test_a_device_without_a_data_sheet_has_a_slope_only() -> None:
    assert domain_roofline.limit_us(4_000_000, 1 << 50, 4_000.0, "gpu") == pytest.approx(1.0)
    assert domain_roofline.limit_us(4_000_000, None, 4_000.0, "h200") == pytest.approx(1.0)
    for peaks in domain_roofline.PEAKS_TFLOP_S.values():
        assert list(peaks.values()) == sorted(peaks.values())
    assert set(domain_roofline.PEAKS_TFLOP_S) <= set(DEVICE_CLASSES)
    assert FLOOR_HEADROOM == bandwidth_limits.GENEROUS, (
        "a floor is stored with the detectors' headroom"
    )


def test_clocks_are_drawn_where_they_were_read() -> None:
    timing = evaluation_of(speedup=1.0).timing
    assert timing is not None
    assert gpu_clocks.strip(timing) is None
    rng = random.Random(1)
    blocks = [
        replace(block, sm_clock_mhz=rng.randint(1500, 1980), temperature_c=50)
        for block in timing.blocks
    ]
    found = gpu_clocks.strip(replace(timing, blocks=tuple(blocks)))
    assert found is not None
    assert 1500 <= found.low_mhz <= found.high_mhz <= 1980
    assert found.temperature_c == (50, 50)
    assert len(found.points.split()) == sum(block.calls > 0 for block in blocks)


def test_every_stage_that_the_referee_takes_the_time_of_has_its_place() -> None:
    folder = Path(__file__).parents[2] / "workers" / "referee"
    taken = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r'stage\("(\w+)"\)', path.read_text())
    }
    assert taken == set(evaluation_view.STAGES)
