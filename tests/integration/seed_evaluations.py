"""Evaluations and verdicts of every kind as a worker would have stored them, made by
hand or drawn.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from app.domain.evaluation import (
    Block,
    CaseOutcome,
    Environment,
    Evaluation,
    EvaluationError,
    FreshWeights,
    Status,
    Timing,
)
from app.domain.evidence import CompiledKernel, Testimony
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.other_timings import BaselineTiming, DeviceTiming
from app.domain.output_checks import Correctness, Element, OutputCheck, Trial
from app.domain.verdict import Finding, Label, Verdict
from tests.integration.seed_environments import CPU, H200


def output_check(rng: random.Random, *, ok: bool = True, index: int = 0) -> OutputCheck:
    return OutputCheck(
        index=index,
        dtype="float32",
        shape=(64, 1024),
        ok=ok,
        rel_l2=rng.uniform(1e-7, 4e-7) if ok else rng.uniform(0.01, 0.9),
        rel_l2_limit=1e-5,
        max_norm=rng.uniform(1e-6, 4e-6) if ok else rng.uniform(0.5, 9),
        max_norm_limit=1e-3,
        nonfinite_mismatches=0,
        unwritten=0,
        stale_call=None,
        worst=None if ok else Element(index=(7, 1023), expected="0.25", got="nan"),
    )


def correctness(rng: random.Random, *, wrong: int = 0, calls: int = 5) -> Correctness:
    trials = tuple(
        Trial(
            call=n,
            seed=f"{rng.getrandbits(64):016x}",
            ok=n >= wrong,
            outputs=(output_check(rng, ok=n >= wrong),),
        )
        for n in range(calls)
    )
    return Correctness(calls=412, failed_calls=wrong, trials=trials, mode="train")


def _baselines(candidate_us: float) -> tuple[BaselineTiming, ...]:
    """One that was measured, and one that failed."""
    error = "timeout: no answer in time (120 s a call, 300 s in all)"
    us = candidate_us * 1.08
    return (
        BaselineTiming(name="compile", speedup=1.08, ci_low=1.05, ci_high=1.11, baseline_us=us),
        BaselineTiming(name="compile-max-autotune", error=error),
    )


def timing(
    rng: random.Random,
    *,
    reference_us: float,
    speedup: float,
    groups: int = 12,
    has_graphs: bool = False,
) -> Timing:
    candidate_us = reference_us / speedup
    handover = 156.0
    blocks = [
        Block(group=-1, side="reference", calls=0, wall_us=rng.gauss(handover, 3), claimed_us=None)
    ]
    for group in range(groups):
        for side in ("reference", "candidate", "candidate", "reference"):
            calls = rng.choice((4, 8, 16))
            per_call = (reference_us if side == "reference" else candidate_us) * math.exp(
                rng.gauss(0, 0.02)
            )
            wall = handover + calls * per_call
            blocks.append(
                Block(group=group, side=side, calls=calls, wall_us=wall, claimed_us=wall - handover)
            )
    measured = DeviceTiming(
        reference_us=reference_us * 0.8,
        candidate_us=candidate_us * 0.6,
        speedup=speedup * 0.8 / 0.6,
        ci_low=speedup * 1.32,
        ci_high=speedup * 1.35,
        groups=groups,
        calls_per_side=200,
    )
    failed = DeviceTiming(error="CUDA graphs need a GPU, not <b>this</b>")
    return Timing(
        reference_us=reference_us,
        candidate_us=candidate_us,
        speedup=speedup,
        ci_low=speedup * 0.985,
        ci_high=speedup * 1.016,
        groups=groups,
        calls_per_side=224,
        handover_us=handover,
        candidate_handover_us=handover + 1.4,
        claimed_us=candidate_us * 0.99,
        floor_us=reference_us / 9,
        stop_reason="precise",
        blocks=tuple(blocks),
        device=measured if has_graphs else failed,
        baselines=_baselines(candidate_us),
    )


def profile(name: str = "softmax_kernel") -> Profile:
    rows = (
        KernelRow(name=name, launches=20, total_us=812.4, custom=True),
        KernelRow(name="aten::empty_like", launches=20, total_us=31.0, custom=False),
        KernelRow(
            name=(
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
            ),
            launches=2,
            total_us=9.1,
            custom=False,
        ),
    )
    return Profile(
        kernels=rows, calls=20, coverage_time=0.953, coverage_count=0.476, source="testimony"
    )


STAGES = {
    "spawn": 5.2,
    "compile": 731.0,
    "correctness": 112.4,
    "timing": 2011.7,
    "profile": 64.9,
    "total": 2931.0,
}


def passed(
    rng: random.Random, *, speedup: float = 1.31, environment: Environment = CPU
) -> Evaluation:
    kernels = (
        CompiledKernel(
            name="softmax_kernel",
            signature="*fp32, *fp32, i32",
            outcome="ok",
            registers=32,
            spill_bytes=0,
            shared_bytes=512,
        ),
        CompiledKernel(
            name="tail_kernel",
            signature="*fp32, i32",
            outcome="failed",
            message="LLVM ERROR: unsupported",
        ),
    )
    return Evaluation(
        status=Status.PASSED,
        environment=environment,
        seed=f"{rng.getrandbits(128):032x}",
        correctness=correctness(rng),
        timing=timing(
            rng,
            reference_us=57.1 if environment is H200 else 1843.0,
            speedup=speedup,
            has_graphs=environment is H200,
        ),
        profile=profile(),
        fresh_weights=FreshWeights(
            names=("norm.weight", "norm.bias"), seed="ab", still_correct=True
        ),
        compiled_kernels=kernels,
        testimony=Testimony(launches=412, stdout="autotuning: BLOCK=1024\n"),
        stage_ms=STAGES,
    )


FAILURES = {
    Status.INCORRECT: EvaluationError(
        kind="wrong_output",
        message="output 0: relative error 0.41 exceeds the limit 1e-05 in 2 of 412 calls",
    ),
    Status.COMPILE_ERROR: EvaluationError(
        kind="syntax_error",
        message="the candidate does not parse: '(' was never closed (line 14)",
        log=(
            "    out = torch.empty_like(x\n                          ^\nSyntaxError: '(' was never"
            " closed\n"
        ),
    ),
    Status.RUNTIME_ERROR: EvaluationError(
        kind="raised",
        message="forward raised RuntimeError in call 0",
        log=(
            '  File "candidate.py", line 23, in forward\n\x1b[31mRuntimeError: shape mismatch'
            " <b>&\x1b[0m\n"
        )
        * 3,
    ),
    Status.TIMEOUT: EvaluationError(kind="call_timeout", message="call 3 took longer than 30 s"),
    Status.OUT_OF_MEMORY: EvaluationError(
        kind="address_space", message="could not allocate 10737418240 bytes (limit 4 GiB)"
    ),
    Status.CRASHED: EvaluationError(
        kind="signal", message="the candidate's process died of signal 11 (SIGSEGV)"
    ),
    Status.INVALID: EvaluationError(
        kind="reference_failed", message="the reference itself raised ValueError in get_inputs"
    ),
}


def failed(rng: random.Random, status: Status) -> Evaluation:
    return Evaluation(
        status=status,
        environment=CPU,
        seed=f"{rng.getrandbits(128):032x}",
        error=FAILURES[status],
        correctness=correctness(rng, wrong=2) if status is Status.INCORRECT else None,
        testimony=Testimony(stdout="warming up\n"),
        stage_ms={"spawn": 4.9, "compile": 12.0, "total": 210.0},
    )


def cheating(rng: random.Random) -> Evaluation:
    """Stale results, untouched outputs and a claimed time that the clock denies."""
    base = passed(rng, speedup=41.0)
    assert base.correctness is not None
    stale = replace(output_check(rng, ok=True), stale_call=1)
    trials = (
        *base.correctness.trials[:3],
        replace(
            base.correctness.trials[3], outputs=(stale,), late_writes=(0,), inputs_changed=(0,)
        ),
    )
    return replace(base, correctness=replace(base.correctness, trials=trials), profile=None)


def by_cases() -> Evaluation:
    """Two of four cases passed, one was wrong, one crashed, and the last had no turn."""
    outcomes = (
        ("small, 16 × 16", Status.PASSED, "", 12.5),
        ("large, 4096 × 4096", Status.PASSED, "", 1843.0),
        (
            "negative",
            Status.INCORRECT,
            "output 0: relative error 0.41 exceeds the limit 1e-05 <b>in 2 calls</b>",
            None,
        ),
        ("empty", Status.CRASHED, "the candidate's process died of signal 11 (SIGSEGV)", None),
    )
    cases = tuple(
        CaseOutcome(
            index=index,
            of=5,
            name=name,
            status=status,
            message=message,
            calls=0 if status is Status.CRASHED else 42,
            failed_calls=2 if status is Status.INCORRECT else 0,
            tolerance="fp64" if index else "rtol=0.01,atol=0.001",
            candidate_us=us,
            candidate_us_low=us and us * 0.98,
            candidate_us_high=us and us * 1.03,
        )
        for index, (name, status, message, us) in enumerate(outcomes)
    )
    found = correctness(random.Random(5), wrong=2)
    return Evaluation(
        status=Status.CRASHED,
        environment=CPU,
        seed="ab" * 16,
        error=FAILURES[Status.CRASHED],
        correctness=replace(
            found,
            tolerance="rtol=0.01,atol=0.001; fp64",
            trials=tuple(
                replace(each, case="small, 16 × 16" if each.ok else "negative")
                for each in found.trials
            ),
        ),
        cases=cases,
        stage_ms={"spawn": 4.9, "compile": 12.0, "total": 210.0},
    )


CLEAN = Verdict(
    label=Label.CLEAN, policy="standard", detectors={"no_kernel": 1, "stale_result": 2}, findings=()
)


SUSPECT = Verdict(
    label=Label.SUSPECT,
    policy="standard",
    detectors={"no_kernel": 1, "claimed_time": 1},
    findings=(
        Finding(
            detector="claimed_time",
            version=1,
            label=Label.SUSPECT,
            summary="the process claims 12 µs per call where the clock says 43 µs",
            evidence={"claimed_us": 12.04, "measured_us": 43.1, "ratio": 0.279},
        ),
    ),
)


HACK = Verdict(
    label=Label.HACK,
    policy="standard",
    detectors={"no_kernel": 1, "stale_result": 2},
    findings=(
        Finding(
            detector="stale_result",
            version=2,
            label=Label.HACK,
            summary="call 3 returned the answer of call 1, although its inputs were new",
            evidence={
                "call": 3,
                "stale_call": 1,
                "outputs": [{"index": 0, "rel_l2": 2.4e-7}],
                "code": "_CACHE.get(x.data_ptr())",
            },
        ),
        Finding(
            detector="no_kernel",
            version=1,
            label=Label.CLEAN,
            summary="20 launches of 1 kernel were seen",
            evidence={"launches": 20},
        ),
    ),
)
