"""Measurements made by hand, each with one thing that a detector looks at."""

import itertools
from dataclasses import replace

from app.domain.evaluation import (
    Block,
    Environment,
    Evaluation,
    EvaluationError,
    FreshWeights,
    Status,
    Timing,
)
from app.domain.evidence import Ablation, Testimony
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.output_checks import Correctness, OutputCheck, Trial

HERE = Environment(
    device_class="cpu",
    device_name="cpu",
    device_id="n.cpu",
    node="n",
    python="3",
    torch="2",
    triton="3",
)


CHECK = OutputCheck(
    index=0,
    dtype="float32",
    shape=(10, 10),
    ok=True,
    rel_l2=1e-7,
    rel_l2_limit=1e-5,
    max_norm=1e-7,
    max_norm_limit=1e-4,
    nonfinite_mismatches=0,
    unwritten=0,
    stale_call=None,
)


TRIAL = Trial(call=0, seed="ab/0", ok=True, outputs=(CHECK,))


RIGHT = Correctness(calls=9, failed_calls=0, trials=(TRIAL,), mode="train")


WRONG = EvaluationError(kind="wrong_output", message="wrong")


def blocks_of(side: str, wall_us: float, claimed_us: float) -> tuple[Block, ...]:
    return tuple(
        Block(group=g, side=side, calls=4, wall_us=wall_us, claimed_us=claimed_us) for g in range(6)
    )


TIMING = Timing(
    reference_us=200,
    candidate_us=100,
    speedup=2,
    ci_low=1.9,
    ci_high=2.1,
    groups=6,
    calls_per_side=24,
    handover_us=50,
    candidate_handover_us=50,
    claimed_us=90,
    floor_us=1,
    stop_reason="precise",
    blocks=blocks_of("reference", 850, 790) + blocks_of("candidate", 460, 400),
)


PASSED = Evaluation(
    status=Status.PASSED,
    environment=HERE,
    seed="00",
    correctness=RIGHT,
    timing=TIMING,
    testimony=Testimony(launches=24),
)


INCORRECT = Evaluation(status=Status.INCORRECT, environment=HERE, seed="00", error=WRONG)


def with_trial(evaluation: Evaluation, trial: Trial) -> Evaluation:
    return replace(
        evaluation, correctness=replace(RIGHT, trials=(trial,), failed_calls=int(not trial.ok))
    )


def wrong_trial(**changes: object) -> Trial:
    return replace(TRIAL, ok=False, outputs=(replace(CHECK, ok=False, **changes),))  # type: ignore[arg-type]


def racing(call: int, of: int | None = None) -> Evaluation:
    """Right calls, and one that gave the answer to another, the one before."""
    wrong = replace(wrong_trial(stale_call=call - 1 if of is None else of), call=call)
    trials = (TRIAL, replace(TRIAL, call=1), wrong)
    return replace(INCORRECT, correctness=replace(RIGHT, calls=40, trials=trials, failed_calls=1))


def timed(reference: tuple[float, float], candidate: tuple[float, float]) -> Evaluation:
    blocks = blocks_of("reference", *reference) + blocks_of("candidate", *candidate)
    return replace(PASSED, timing=replace(TIMING, blocks=blocks))


def refused(kind: str, message: str, status: Status = Status.INCORRECT) -> Evaluation:
    return replace(INCORRECT, status=status, error=EvaluationError(kind=kind, message=message))


def launched(launches: int, *, alone: int, calls: int = 100) -> Evaluation:
    """So many launches in so many calls, and in one that was made alone."""
    testimony = Testimony(launches=launches, launches_alone=alone)
    return replace(PASSED, correctness=replace(RIGHT, calls=calls), testimony=testimony)


MIXED = replace(
    PASSED,
    timing=replace(
        TIMING,
        blocks=blocks_of("reference", 850, 790)
        + 2 * blocks_of("candidate", 200, 0)
        + tuple(replace(block, calls=64) for block in blocks_of("candidate", 3200, 0)),
    ),
)


CHANGED = replace(TRIAL, inputs_changed=(0,))


CONSTANT = replace(RIGHT, output_constant=True)


WIDE = replace(TRIAL, outputs=(replace(CHECK, shape=(4096, 4096)),))
WIDE_PASS = 2 * 4 * 4096 * 4096
"""Bytes to read and write that output once."""


SCALAR = replace(TRIAL, outputs=(replace(CHECK, shape=()),))


EMPTY = replace(TRIAL, outputs=(replace(CHECK, shape=(0, 8)),))


ON_GPU = replace(HERE, bandwidth_gb_s=4000.0)


def kernels(
    own_us: float,
    torch_us: float,
    origin: str = "triton",
    grid: tuple[int, int, int] | None = None,
    *,
    elsewhere: str = "torch",
    own_bytes: int | None = None,
    library_bytes: int | None = None,
    launches: int = 1,
    library: str = "gemm",
) -> Evaluation:
    """Ten profiled calls on a GPU, of which each spends so much in its own and in
    the library's kernels.
    """
    rows = (
        KernelRow(
            name="own",
            launches=10,
            total_us=10 * own_us,
            custom=True,
            origin=origin,
            grid=grid,
            block=(128, 1, 1),
            work_bytes=own_bytes,
        ),
        KernelRow(
            name=library,
            launches=10 * launches,
            total_us=10 * torch_us,
            custom=False,
            origin=elsewhere,
            work_bytes=library_bytes,
        ),
    )
    table = tuple(row for row in rows if row.total_us)
    profile = Profile(
        kernels=table, calls=10, coverage_time=None, coverage_count=None, source="recorder"
    )
    correctness = replace(RIGHT, trials=(WIDE,))
    return replace(PASSED, environment=ON_GPU, profile=profile, correctness=correctness)


def beside_products(
    own_us: float,
    products_us: float,
    library_us: float,
    reference_us: float,
    *,
    saved_us: float = 0,
    launch_bound: bool = False,
    operators: int = 1,
) -> Evaluation:
    """A call on a GPU with products that both sides leave to the library: so much time of each kind
    of kernels, and so much for the reference's other operators at the bandwidth.
    """
    evaluation = kernels(own_us, products_us + library_us)
    assert evaluation.profile is not None
    whole_us = own_us + products_us + library_us
    seen = replace(
        evaluation.profile,
        shared_products=products_us / whole_us,
        reference_rest_bytes=round(reference_us * 4_000_000),
        reference_rest_operators=operators,
    )
    timing = replace(
        TIMING, reference_us=100 + saved_us, candidate_us=100, launch_bound=launch_bound
    )
    return replace(evaluation, profile=seen, timing=timing)


def profile(evaluation: Evaluation) -> Profile:
    assert evaluation.profile is not None
    return evaluation.profile


def alone(own_us: float, device_us: float, grid: tuple[int, int, int] = (1, 1, 1)) -> Evaluation:
    """One call on a GPU of which only the candidate's own kernels were recorded."""
    profile = kernels(own_us, 0, grid=grid).profile
    assert profile is not None
    return replace(kernels(own_us, 0), profile=replace(profile, device_us=device_us))


def profiled_us(device_us: float) -> Evaluation:
    """A call on a GPU of 100 µs, with the device busy for so long in the profiled one."""
    evaluation = kernels(90, 0)
    assert evaluation.profile is not None
    return replace(
        evaluation,
        environment=replace(ON_GPU, device_class="h200"),
        profile=replace(evaluation.profile, device_us=device_us, source="profiler"),
    )


def settling(reference_us: float, *candidate_us: float, times: int = 3) -> Evaluation:
    """Timed blocks after which the device took so long to come to the referee's own work."""
    after = {
        "reference": itertools.cycle([reference_us]),
        "candidate": itertools.cycle(candidate_us),
    }
    blocks = (replace(block, settled_us=next(after[block.side])) for block in times * TIMING.blocks)
    return benchmark(blocks=tuple(blocks))


def waiting(*candidate_us: float, reference_us: float = 180) -> Evaluation:
    """Timed blocks before which the device took so long to come to rest, those of
    the candidate in turn.
    """
    before = {
        "reference": itertools.cycle([reference_us, 150]),
        "candidate": itertools.cycle(candidate_us),
    }
    blocks = (replace(block, before_us=next(before[block.side])) for block in 6 * TIMING.blocks)
    return benchmark(blocks=tuple(blocks))


def beside(usual_us: float, device_class: str = "h200", quickest_us: float = 990) -> Evaluation:
    """A reference that took 1,000 µs in the median, and never less than so many."""
    reference = blocks_of("reference", 50 + 4 * 1000, 4 * 1000)
    reference = (replace(reference[0], wall_us=50 + 4 * quickest_us), *reference[1:])
    blocks = reference + blocks_of("candidate", 50 + 4 * 500, 4 * 500)
    evaluation = benchmark(
        reference_us=1000, candidate_us=500, reference_usual_us=usual_us, blocks=blocks
    )
    return replace(evaluation, environment=replace(HERE, device_class=device_class))


def with_work(evaluation: Evaluation, floor_us: float = 100) -> Evaluation:
    """The device needs so long for a call at the least."""
    assert evaluation.timing is not None
    return replace(evaluation, timing=replace(evaluation.timing, floor_us=floor_us))


def strange() -> Evaluation:
    """A profile with one kernel of unknown origin."""
    row = KernelRow(name="kernel", launches=1, total_us=9, custom=False)
    profile = Profile(
        kernels=(row,), calls=1, coverage_time=None, coverage_count=None, source="recorder"
    )
    return replace(PASSED, environment=ON_GPU, profile=profile)


def early(
    launched: int = 0, device_class: str = "cpu", source: str = "testimony", **changes: object
) -> Evaluation:
    """A candidate that launched kernels at some time, and in the profiled call so many."""
    rows = tuple(
        KernelRow(name="own", launches=1, total_us=1, custom=True) for _ in range(launched)
    )
    profile = Profile(kernels=rows, calls=1, coverage_time=None, coverage_count=None, source=source)
    evaluation = replace(
        PASSED, profile=profile, environment=replace(HERE, device_class=device_class)
    )
    return ablated(evaluation, launches_skipped=0, reason="by source", **changes)


def asked_again(kernels_matter: bool | None) -> Evaluation:
    """Right with other weights, too; with or without its kernels."""
    seen = FreshWeights(
        names=("norm.weight",), seed="00", still_correct=True, kernels_matter=kernels_matter
    )
    return replace(PASSED, fresh_weights=seen)


def ablated(evaluation: Evaluation = PASSED, **changes: object) -> Evaluation:
    ablation = Ablation(attempted=True, reason="", launches_skipped=1, still_correct=False)
    return replace(evaluation, ablation=replace(ablation, **changes))  # type: ignore[arg-type]


def reweighed(
    rel_l2: float | None = 0.28, reason: str = "", usual: float = 0.0, **changes: object
) -> Evaluation:
    """One more call with other weights and an answer off by so much; or none, for a reason."""
    check = replace(CHECK, ok=False, rel_l2=rel_l2, rel_l2_limit=1e-5)
    seen = FreshWeights(
        names=("norm.weight",),
        seed="0",
        still_correct=False,
        outputs=() if reason else (check,),
        reason=reason,
    )
    trial = replace(TRIAL, outputs=(replace(CHECK, rel_l2=usual),))
    return replace(with_trial(PASSED, trial), fresh_weights=replace(seen, **changes))  # type: ignore[arg-type]


def with_nulls(evaluation: Evaluation) -> Evaluation:
    """Zeros are within tolerance, too."""
    assert evaluation.correctness is not None
    return replace(evaluation, correctness=replace(evaluation.correctness, null_answers=("zeros",)))


def correct(**changes: object) -> Evaluation:
    return replace(PASSED, correctness=replace(RIGHT, **changes))  # type: ignore[arg-type]


def benchmark(**changes: object) -> Evaluation:
    return replace(PASSED, timing=replace(TIMING, **changes))  # type: ignore[arg-type]


def failing(*pattern: tuple[bool, str], rel_l2: float = 0.3) -> Evaluation:
    trials = tuple(
        replace(TRIAL if ok else wrong_trial(rel_l2=rel_l2), call=call, variant=variant)
        for call, (ok, variant) in enumerate(pattern)
    )
    return replace(INCORRECT, correctness=replace(RIGHT, trials=trials, failed_calls=1))


TWO_SPEEDS = (
    blocks_of("reference", 850, 790) * 3
    + blocks_of("candidate", 450, 400) * 2
    + blocks_of("candidate", 4500, 4400)
)


RESTLESS = (
    blocks_of("reference", 850, 790)
    + blocks_of("reference", 9850, 790)[:1]
    + tuple(replace(block, wall_us=9000) for block in blocks_of("candidate", 460, 400))
)
"""A busy host: the candidate had to wait in every block, the reference in one."""


CROWDED = (
    *(
        Block(group=-1, side="reference", calls=0, wall_us=wall_us, claimed_us=90)
        for wall_us in (230, 151_000, 320_000, 240_000)
    ),
    *(replace(block, calls=1) for block in blocks_of("reference", 450, 310)),
    *(replace(block, calls=1) for block in blocks_of("candidate", 190_000, 11_000)),
)
"""A busier host: the reference had to wait as long as the candidate, but not in blocks of a short
call.
"""


ONCE_CROWDED = (
    CROWDED[1],
    *blocks_of("reference", 850, 790),
    *blocks_of("candidate", 4600, 400),
)
"""The reference had to wait once, and the candidate's clock is slow."""


SLOW_CLOCK = tuple(
    replace(block, sm_clock_mhz=1900 if block.side == "candidate" else 1500)
    for block in blocks_of("reference", 850, 790) + blocks_of("candidate", 460, 400)
)
