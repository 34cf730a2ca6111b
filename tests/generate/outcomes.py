"""A pool of imaginary measurements: each is a whole evaluation that every page can show."""

from __future__ import annotations

import math
import random

from app.domain.evaluation import Block, Environment, Evaluation, EvaluationError, Status, Timing
from app.domain.evidence import Testimony
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.output_checks import Correctness, OutputCheck, Trial

SPEEDUPS = tuple(math.exp(-2.3 + 0.0135 * step) for step in range(500))
"""0.1 to 85, each 1.4 % above the one before."""
VARIANTS = 6
REFERENCE_US = {"h100": 431.0, "h200": 352.0}
"""The same for all problems: their evaluations share timings, and within a
trajectory the reference must stay.
"""

GROUPS = 3

_ERRORS = {
    Status.INCORRECT: (
        "wrong_output",
        "output 0: relative error 0.41 exceeds the limit 1e-05 in 2 of 40 calls",
    ),
    Status.COMPILE_ERROR: (
        "syntax_error",
        "the candidate does not parse: '(' was never closed (line 14)",
    ),
    Status.RUNTIME_ERROR: ("raised", "forward raised RuntimeError in call 0: shape mismatch"),
    Status.TIMEOUT: ("call_timeout", "call 3 took longer than 30 s"),
    Status.OUT_OF_MEMORY: ("address_space", "could not allocate 10737418240 bytes"),
    Status.CRASHED: ("signal", "the candidate's process died of signal 11 (SIGSEGV)"),
    Status.INVALID: ("reference_failed", "the reference itself raised ValueError in get_inputs"),
}


def passed(seed: int) -> dict[str, list[Evaluation]]:
    """Device class → correct evaluations, slowest first, one for each of SPEEDUPS."""
    draw = random.Random(seed + 2)
    return {
        kind: [_passed(draw, kind, speedup) for speedup in SPEEDUPS] for kind in ("h100", "h200")
    }


def failed(seed: int) -> dict[tuple[str, str], list[Evaluation]]:
    """(Device class, status) → evaluations that came to nothing."""
    draw = random.Random(seed + 3)
    return {
        (kind, status): [_failed(draw, kind, status) for _ in range(VARIANTS)]
        for kind in ("h100", "h200")
        for status in _ERRORS
    }


def _environment(device_class: str) -> Environment:
    return Environment(
        device_class=device_class,
        device_name=f"NVIDIA {device_class.upper()} (imagined)",
        device_id=f"GPU-generated-{device_class}",
        node="generated",
        python="3.12.3",
        torch="2.11.0",
        triton="3.6.0",
        driver="575.57.08",
        cuda="12.9",
        bandwidth_gb_s=4021.0 if device_class == "h200" else 2900.0,
        sandbox=("own process", "uid 65534", "no_new_privs", "network namespace"),
    )


def _stages(draw: random.Random, *, timed: bool) -> dict[str, float]:
    means = {"spawn": 6.0, "compile": 420.0, "correctness": 90.0}
    if timed:
        means |= {"timing": 700.0, "profile": 60.0}
    stages = {name: round(mean * math.exp(draw.gauss(0, 0.45)), 3) for name, mean in means.items()}
    return stages | {"total": round(sum(stages.values()), 3)}


def _correctness(draw: random.Random, *, wrong: int) -> Correctness:
    trials = tuple(
        Trial(
            call=call,
            seed=f"{draw.getrandbits(64):016x}",
            ok=call >= wrong,
            outputs=(
                OutputCheck(
                    index=0,
                    dtype="float32",
                    shape=(64, 1024),
                    ok=call >= wrong,
                    rel_l2=draw.uniform(1e-7, 4e-7) if call >= wrong else draw.uniform(0.01, 0.9),
                    rel_l2_limit=1e-5,
                    max_norm=draw.uniform(1e-6, 4e-6) if call >= wrong else draw.uniform(0.5, 9),
                    max_norm_limit=1e-3,
                    nonfinite_mismatches=0,
                    unwritten=0,
                    stale_call=None,
                ),
            ),
        )
        for call in range(2)
    )
    return Correctness(calls=40, failed_calls=wrong, trials=trials, mode="train")


def _timing(draw: random.Random, kind: str, speedup: float) -> Timing:
    reference_us = round(REFERENCE_US[kind] * math.exp(draw.gauss(0, 0.003)), 3)
    candidate_us, handover_us = reference_us / speedup, 31.0
    blocks = []
    for group in range(GROUPS):
        for side in ("reference", "candidate", "candidate", "reference"):
            per_call = (reference_us if side == "reference" else candidate_us) * math.exp(
                draw.gauss(0, 0.008)
            )
            wall_us = round(handover_us + 16 * per_call, 3)
            blocks.append(
                Block(
                    group=group,
                    side=side,
                    calls=16,
                    wall_us=wall_us,
                    claimed_us=None,
                    sm_clock_mhz=1980,
                )
            )
    width = 1 + draw.uniform(0.004, 0.02)
    return Timing(
        reference_us=reference_us,
        candidate_us=candidate_us,
        speedup=speedup,
        ci_low=speedup / width,
        ci_high=speedup * width,
        groups=GROUPS,
        calls_per_side=2 * 16 * GROUPS,
        handover_us=handover_us,
        candidate_handover_us=handover_us,
        claimed_us=None,
        floor_us=reference_us / 30,
        stop_reason="precise",
        blocks=tuple(blocks),
    )


def _passed(draw: random.Random, kind: str, speedup: float) -> Evaluation:
    timing = _timing(draw, kind, speedup)
    coverage = round(draw.betavariate(6, 1.2), 4)
    kernels = (
        KernelRow(
            name="imagined_kernel",
            launches=20,
            total_us=20 * timing.candidate_us * coverage,
            custom=True,
        ),
        KernelRow(
            name="at::native::copy",
            launches=20,
            total_us=20 * timing.candidate_us * (1 - coverage),
            custom=False,
        ),
    )
    return Evaluation(
        status=Status.PASSED,
        environment=_environment(kind),
        seed=f"{draw.getrandbits(128):032x}",
        correctness=_correctness(draw, wrong=0),
        timing=timing,
        profile=Profile(
            kernels=kernels, calls=20, coverage_time=coverage, coverage_count=0.5, source="recorder"
        ),
        testimony=Testimony(launches=40),
        stage_ms=_stages(draw, timed=True),
    )


def _failed(draw: random.Random, kind: str, status: Status) -> Evaluation:
    name, message = _ERRORS[status]
    return Evaluation(
        status=status,
        environment=_environment(kind),
        seed=f"{draw.getrandbits(128):032x}",
        error=EvaluationError(kind=name, message=message),
        correctness=_correctness(draw, wrong=2) if status is Status.INCORRECT else None,
        stage_ms=_stages(draw, timed=False),
    )
