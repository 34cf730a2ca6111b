"""A stored evaluation is the one that was measured, or it is not stored."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.evaluation import (
    Block,
    Environment,
    Evaluation,
    EvaluationError,
    FreshWeights,
    Status,
    Timing,
)
from app.domain.evidence import Ablation, CompiledKernel, NarrowProducts, Testimony
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.store.evaluation import evaluation_json

numbers = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
counts = st.integers(min_value=0, max_value=2**53)

checks = st.builds(
    OutputCheck,
    index=counts,
    dtype=words,
    shape=st.lists(counts, max_size=3).map(tuple),
    ok=st.booleans(),
    rel_l2=st.none() | numbers,
    rel_l2_limit=numbers,
    max_norm=st.none() | numbers,
    max_norm_limit=numbers,
    nonfinite_mismatches=counts,
    unwritten=counts,
    stale_call=st.none() | counts,
)

evaluations = st.builds(
    Evaluation,
    status=st.just(Status.PASSED),
    environment=st.builds(
        Environment,
        device_class=words,
        device_name=words,
        device_id=words,
        node=words,
        python=words,
        torch=words,
        triton=words,
        bandwidth_gb_s=st.none() | numbers,
        sandbox=st.lists(words, max_size=3).map(tuple),
    ),
    seed=words,
    error=st.none(),
    correctness=st.none()
    | st.builds(
        Correctness,
        calls=counts,
        failed_calls=counts,
        mode=words,
        trials=st.lists(
            st.builds(
                Trial,
                call=counts,
                seed=words,
                ok=st.booleans(),
                inputs_changed=st.lists(counts, max_size=2).map(tuple),
                outputs=st.lists(
                    checks,
                    max_size=2,
                ).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
    ),
    timing=st.none()
    | st.builds(
        Timing,
        **dict.fromkeys(
            (
                "reference_us",
                "candidate_us",
                "speedup",
                "ci_low",
                "ci_high",
                "handover_us",
                "candidate_handover_us",
            ),
            numbers,
        ),
        groups=counts,
        calls_per_side=counts,
        claimed_us=st.none() | numbers,
        floor_us=numbers,
        stop_reason=words,
        blocks=st.lists(
            st.builds(
                Block,
                group=st.integers(-1, 100),
                side=words,
                calls=counts,
                wall_us=numbers,
                claimed_us=st.none() | numbers,
            ),
            max_size=3,
        ).map(tuple),
    ),
    profile=st.none()
    | st.builds(
        Profile,
        kernels=st.lists(
            st.builds(
                KernelRow, name=words, launches=counts, total_us=numbers, custom=st.booleans()
            ),
            max_size=2,
        ).map(tuple),
        calls=counts,
        coverage_time=st.none() | numbers,
        coverage_count=st.none() | numbers,
        source=words,
    ),
    ablation=st.none()
    | st.builds(
        Ablation, attempted=st.booleans(), reason=words, still_correct=st.none() | st.booleans()
    ),
    fresh_weights=st.none()
    | st.builds(
        FreshWeights,
        names=st.lists(words, max_size=2).map(tuple),
        seed=words,
        still_correct=st.none() | st.booleans(),
        outputs=st.lists(checks, max_size=1).map(tuple),
        second_process=st.booleans(),
        reason=words,
    ),
    narrow_products=st.none()
    | st.builds(
        NarrowProducts,
        found=st.booleans(),
        format=words,
        parts=words,
        output=counts,
        share=numbers,
        significance=numbers,
        control_significance=st.none() | numbers,
        own_share=numbers,
        calls=counts,
        elements=counts,
    ),
    compiled_kernels=st.lists(
        st.builds(
            CompiledKernel, name=words, signature=words, outcome=words, registers=st.none() | counts
        ),
        max_size=2,
    ).map(tuple),
    testimony=st.builds(
        Testimony,
        launches=counts,
        output_types=st.lists(words, max_size=2).map(tuple),
        stdout=words,
    ),
    stage_ms=st.dictionaries(words, numbers, max_size=3),
)


@given(evaluations)
def test_everything_comes_back(evaluation: Evaluation) -> None:
    through_json = json.loads(json.dumps(evaluation_json.encode(evaluation), allow_nan=False))
    assert evaluation_json.decode(through_json) == evaluation


ENVIRONMENT = Environment(
    device_class="cpu", device_name="d", device_id="0", node="n", python="3", torch="2", triton="3"
)
FAILED = Evaluation(
    status=Status.CRASHED,
    environment=ENVIRONMENT,
    seed="0",
    error=EvaluationError(kind="signal", message="m"),
)


def test_what_jsonb_refuses_is_replaced() -> None:
    odd = replace(FAILED, error=EvaluationError(kind="signal", message="a\x00b\ud800c"))
    error = evaluation_json.decode(evaluation_json.encode(odd)).error
    assert error is not None
    assert error.message == "a\ufffdb\ufffd\ufffd\ufffdc"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_cannot_hold(value: float) -> None:
    optional = replace(FAILED, environment=replace(ENVIRONMENT, bandwidth_gb_s=value))
    assert (
        evaluation_json.decode(evaluation_json.encode(optional)).environment.bandwidth_gb_s is None
    )
    with pytest.raises(
        evaluation_json.CodecError, match=r"Expected `float`, got `null` - at `\$.stage_ms"
    ):
        evaluation_json.encode(replace(FAILED, stage_ms={"total": value}))


def test_what_is_no_evaluation_says_where() -> None:
    stored = evaluation_json.encode(FAILED)
    with pytest.raises(evaluation_json.CodecError, match=r"at `\$.status`"):
        evaluation_json.decode({**stored, "status": "splendid"})
    with pytest.raises(evaluation_json.CodecError, match="exactly the passed have no error"):
        evaluation_json.decode({**stored, "error": None})
    assert evaluation_json.decode({**stored, "of_a_later_version": 1}) == FAILED
    earlier = {key: value for key, value in stored.items() if key != "fresh_weights"}
    assert evaluation_json.decode(earlier) == FAILED
