"""Results in KernelGYM's words, and the reward that its client computes of them."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import reward
from app.domain.evaluation import (
    Status,
)
from app.domain.job import JobState
from app.domain.kernel_profile import KernelRow
from app.domain.request import RequestError
from app.domain.reward import Options
from app.domain.verdict import Label
from app.store.queue.devices import Device
from app.web.compat import device_choice
from app.web.compat.kernelgym import responses
from tests.unit.kernelgym_words import ASKED, evaluated, read, unfinished


@pytest.mark.parametrize(
    ("status", "word", "compiled", "code"),
    [
        (Status.PASSED, "completed", True, None),
        (Status.INCORRECT, "completed", True, "CORRECTNESS_ERROR"),
        (Status.RUNTIME_ERROR, "completed", True, "RUNTIME_ERROR"),
        (Status.CRASHED, "completed", True, "RUNTIME_ERROR"),
        (Status.OUT_OF_MEMORY, "completed", True, "RESOURCE_ERROR"),
        (Status.COMPILE_ERROR, "failed", False, "COMPILATION_ERROR"),
        (Status.TIMEOUT, "failed", True, "TIMEOUT_ERROR"),
        (Status.INVALID, "failed", False, "SYSTEM_ERROR"),
    ],
)
def test_every_status_has_its_words(
    status: Status, word: str, compiled: bool, code: str | None
) -> None:
    found = evaluated(status, log="Traceback …")
    answer, progress = responses.evaluation("t", ASKED, found), responses.progress("t", found)
    assert (answer["status"], answer["compiled"], answer["error_code"]) == (word, compiled, code)
    assert answer["correctness"] is (status is Status.PASSED)
    message = None if code is None else "what came"
    assert answer["error_message"] == progress["error_message"] == message
    assert (progress["status"], progress["error_code"]) == (word, code)
    if code not in {None, "TIMEOUT_ERROR", "SYSTEM_ERROR"}:
        assert "Traceback …" in answer["metadata"].values()
        assert "some_kind" in answer["metadata"].values()


def test_a_correct_kernel_in_the_words_of_the_protocol() -> None:
    rows = (
        KernelRow(name="ours", launches=3, total_us=60.0, custom=True),
        KernelRow(name="aten", launches=1, total_us=20.0, custom=False),
    )
    answer = responses.evaluation("t", ASKED, evaluated(kernels=rows))
    assert (answer["reference_runtime"], answer["kernel_runtime"], answer["speedup"]) == (
        2.0,
        1.0,
        2.0,
    )
    assert answer["decoy_kernel"] is False
    assert answer["processing_time"] == 1.5
    metadata = answer["metadata"]
    assert (metadata["num_custom_kernels"], metadata["num_total_kernels"]) == (3, 4)
    assert metadata["custom_kernel_cuda_time_in_profiling_us"] == 60.0
    assert metadata["total_kernel_run_time_in_profiling_us"] == 80.0
    assert metadata["correctness_trials"] == "(5 / 5)"
    assert metadata["triton_profiler_matches"] == "['ours']"
    assert metadata["profiling"]["kernels"][0] == {
        "name": "ours",
        "cuda_time_us": 60.0,
        "cpu_time_us": 0.0,
        "count": 3,
    }
    json.dumps(answer, allow_nan=False)


def test_a_baseline_that_was_asked_for_in_vain_is_never_claimed() -> None:
    for wanted in (None, "eager", "pytorch"):
        assert read(reference_backend=wanted).request("cpu", None).options.baselines == ()
        metadata = responses.evaluation("t", {**ASKED, "reference_backend": wanted}, evaluated())[
            "metadata"
        ]
        assert (metadata["reference_backend"], metadata["reference_backend_compiled"]) == (
            "eager",
            False,
        )
        assert "reference_backend_error" not in metadata
    for wanted in ("torch_compile", "tensorrt"):
        answer = responses.evaluation("t", {**ASKED, "reference_backend": wanted}, evaluated())
        assert answer["speedup"] == 2.0
        metadata = answer["metadata"]
        assert (metadata["reference_backend"], metadata["reference_backend_compiled"]) == (
            "eager",
            False,
        )
        expected = f"{wanted!r} was asked for and not timed; speedup is over 'eager'"
        assert metadata["reference_backend_error"] == expected


@pytest.mark.parametrize("wanted", ["compile", "torch_compile", "torch-compile"])
def test_the_compiled_reference_is_what_the_speedup_is_over_where_it_was_asked_for(
    wanted: str,
) -> None:
    assert read(reference_backend=wanted).request("cpu", None).options.baselines == ("compile",)
    asked = {**ASKED, "reference_backend": wanted}
    timed = {
        "name": "compile",
        "speedup": 1.25,
        "ci_low": 1.2,
        "ci_high": 1.3,
        "baseline_us": 1250.0,
        "error": None,
    }
    answer = responses.evaluation("t", asked, {**evaluated(), "baselines": [timed]})
    assert (answer["speedup"], answer["reference_runtime"]) == (1.25, 1.25)
    assert answer["metadata"]["reference_backend_compiled"] is True
    assert "reference_backend_error" not in answer["metadata"]

    failed = {"name": "compile", "speedup": None, "baseline_us": None, "error": "no compiler"}
    answer = responses.evaluation("t", asked, {**evaluated(), "baselines": [failed]})
    assert answer["speedup"] == 2.0
    assert "not timed: no compiler" in answer["metadata"]["reference_backend_error"]


def test_on_a_gpu_profiles_are_the_drivers() -> None:
    assert read().request("h200", None).options.profile == "full"
    assert read().request("cpu", None).options.profile == "launches"


def test_a_hack_is_a_decoy_without_times() -> None:
    answer = responses.evaluation("t", ASKED, evaluated(label=Label.HACK))
    assert answer["decoy_kernel"] is True
    assert (answer["kernel_runtime"], answer["speedup"], answer["status"]) == (
        -1.0,
        0.0,
        "completed",
    )


def test_a_wrong_kernel_shows_by_how_much() -> None:
    metadata = responses.evaluation("t", ASKED, evaluated(Status.INCORRECT))["metadata"]
    assert metadata["correctness_trials"] == "(3 / 5)"
    assert (metadata["max_difference"], metadata["avg_difference"]) == (["nan"], ["0.25"])
    assert metadata["correctness_issue"] == "what came"


def test_what_is_not_over_has_no_numbers_and_what_failed_by_our_fault_has_sentinels() -> None:
    for state, word in ((JobState.QUEUED, "pending"), (JobState.RUNNING, "processing")):
        answer = responses.evaluation("t", ASKED, unfinished(state))
        assert answer["status"] == word
        assert {answer[name] for name in ("compiled", "speedup", "metadata", "kernel_runtime")} == {
            None
        }
    fault = unfinished(JobState.FAILED, {"kind": "infrastructure", "message": "on fire", "log": ""})
    answer = responses.evaluation("t", ASKED, fault)
    assert (answer["status"], answer["error_code"], answer["error_message"]) == (
        "failed",
        "SYSTEM_ERROR",
        "on fire",
    )
    assert (answer["kernel_runtime"], answer["reference_runtime"], answer["speedup"]) == (
        -1.0,
        -1.0,
        0.0,
    )
    assert answer["metadata"]["valid"] is False
    cancelled = unfinished(JobState.CANCELLED)
    assert responses.progress("t", cancelled)["status"] == "cancelled"
    assert responses.evaluation("t", ASKED, cancelled)["error_message"] == "Task was cancelled"


def what_their_client_pays(answer: dict[str, Any], name: str, o: Options) -> float:
    """The reward that KernelGYM's client computes of an answer, from the description
    of its three functions.
    """
    failed = answer["status"] != "completed"
    if name == "calculate_reward_like_kernel":
        if failed or answer["decoy_kernel"]:
            return -1.0
        if not answer["correctness"]:
            return o.correctness_fail
        ladder = {3: 1.0, 2: 0.8, 1.5: 0.6, 1.2: 0.4, 1: 0.2}
        return next(
            (paid for least, paid in ladder.items() if answer["speedup"] >= least), o.perf_degrade
        )
    if failed or answer["decoy_kernel"]:
        return o.penalty_score
    speedup = answer["speedup"] or 0
    if name == "calculate_reward_weighted":
        performance = 1.0 if speedup >= 1 + o.speedup_eps else 0.0
    else:
        performance = min(speedup, o.upper_bound)
        performance = 0.0 if performance < o.lower_bound else performance
    found = answer["metadata"]
    parts = {
        "time_coverage": (
            "custom_kernel_cuda_time_in_profiling_us",
            "total_kernel_run_time_in_profiling_us",
        ),
        "number_coverage": ("num_custom_kernels", "num_total_kernels"),
    }[o.coverage]
    part, whole = (found[key] for key in parts)
    coverage = part / whole if whole > 0 else 0.0
    correct = bool(answer["correctness"])
    paid = o.correct_weight * correct + o.performance_weight * performance
    return paid + (o.coverage_weight * coverage if correct else 0.0)


rows = st.builds(
    KernelRow,
    name=st.sampled_from(["a", "b"]),
    launches=st.integers(1, 50),
    total_us=st.floats(0, 1e4),
    custom=st.booleans(),
)


@given(
    st.sampled_from([status for status in Status if status is not Status.INVALID]),
    st.sampled_from(Label),
    st.floats(0.01, 50),
    st.lists(rows, max_size=4),
    st.builds(
        Options,
        coverage=st.sampled_from(reward.COVERAGES),
        coverage_weight=st.sampled_from([0.0, 0.25, 0.5]),
        lower_bound=st.sampled_from([0.0, 1.0]),
        penalty_score=st.sampled_from([0.0, -0.5]),
    ),
)
def test_their_client_computes_the_reward_that_we_do(
    status: Status, label: Label, speedup: float, kernels: list[KernelRow], o: Options
) -> None:
    found = evaluated(status, label=label, speedup=speedup, kernels=tuple(kernels))
    answer = responses.evaluation("t", ASKED, found)
    measures = reward.measures(found)
    assert measures is not None
    for name in (
        "calculate_reward_speedup",
        "calculate_reward_weighted",
        "calculate_reward_like_kernel",
    ):
        assert math.isclose(
            reward.REWARDS[name](measures, o),
            what_their_client_pays(answer, name, o),
            abs_tol=1e-12,
        )


def device(kind: str, index: int = 0, *, node: str = "n", state: str = "online") -> Device:
    return Device(
        device_id=uuid4(),
        node=node,
        device_class=kind,
        device_index=index,
        state=state,
        worker="w",
        fingerprint={},
        heartbeat_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_tasks_go_where_most_devices_are() -> None:
    assert device_choice.choose([], None) == ("cpu", None)
    mixed = [device("cpu"), device("h200"), device("h200", 1), device("a100")]
    assert device_choice.choose(mixed, None) == ("h200", None)
    assert device_choice.choose([device("cpu"), device("a100", state="offline")], None) == (
        "a100",
        None,
    )
    assert device_choice.choose(mixed, "cuda") == ("h200", None)
    assert device_choice.choose(mixed, "a100") == ("a100", None)
    assert device_choice.choose(mixed, "cuda:1") == ("h200", "n.1")
    assert device_choice.choose(mixed, "n.1") == ("h200", "n.1")
    for wrong in ("cuda:7", "m.0", "gpu0"):
        with pytest.raises(RequestError, match=r"known device \(n\.0, n\.1, n\.0\)"):
            device_choice.choose(mixed, wrong)


def test_a_traceback_names_no_folder_of_this_server() -> None:
    log = (
        'File "/srv/secret/assay/workers/shims/candidate.py", line 3, in load\n'
        'File "/srv/secret/.venv/lib/python3.11/site-packages/triton/runtime/jit.py", line 9\n'
        'File "/usr/lib/python3.12/ast.py", line 50, in parse\n'
        'File "<candidate>", line 1'
    )
    shown = responses._relative(log)
    assert shown.splitlines() == [
        'File "workers/shims/candidate.py", line 3, in load',
        'File "triton/runtime/jit.py", line 9',
        'File "ast.py", line 50, in parse',
        'File "<candidate>", line 1',
    ]
