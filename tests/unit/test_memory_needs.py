"""Device memory that evaluations need and layouts that follow; attempts of an
evaluation that ran out of it.
"""

import os
import uuid
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.evaluation import Status
from app.domain.job import Job
from workers.protocol import problem_spec
from workers.referee import admission, evaluate, progress
from workers.referee.evaluate import Room
from workers.referee.host import device
from workers.referee.host.device import open_device
from workers.referee.host.memory_budget import MemoryBudget
from workers.referee.session import memory_needs, setup
from workers.referee.session.fault_attribution import Fault, invalid
from workers.referee.session.record import CHECK_BYTES
from workers.shims.problem import model_checks
from workers.shims.problem.answers import true_answer

HOST: Any = SimpleNamespace(memory_budget=MemoryBudget(100))
JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")
DISTURBED = Fault(Status.INVALID, "disturbed", "others were busy", disturbed=True)
THRICE = [Room.ONCE, Room.TWICE, Room.ALONE]


def spec(elements: int) -> problem_spec.ProblemSpec:
    tensor: dict[str, Any] = {
        "kind": "tensor",
        "shape": [elements],
        "dtype": "float32",
        "stride": None,
    }
    return problem_spec.ProblemSpec(
        inputs={"kind": "list", "items": [tensor]},
        outputs=tensor,
        init={"kind": "list", "items": []},
        parameters={},
        training=False,
        truth="fp64",
        mutated_inputs=(),
        output_constant=False,
    )


def pretend_gpu(monkeypatch: pytest.MonkeyPatch, total_bytes: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gpu = SimpleNamespace(total_memory=total_bytes)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)


def test_what_is_needed_grows_with_the_problem_and_covers_what_is_known() -> None:
    small, large = spec(1 << 20), spec(1 << 28)
    needed = [
        memory_needs.of_evaluation(each, problem_spec.arena(each, 2), 2 << 30, 512 << 20)
        for each in (small, large)
    ]
    place = problem_spec.arena(large, 2)
    known = place.reference_bytes + place.candidate_bytes + 2 * 2 * large.slot_bytes
    assert needed[0] < 4 << 30
    assert known < needed[1] < 80 << 30


def test_problems_of_64_mb_to_1_gb_fit_on_a_gpu_of_139_gib_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend_gpu(monkeypatch, 139 << 30)
    device = open_device("h200", 0, 8)
    total = 0
    for elements in (1 << 24, 1 << 26, 1 << 27, 1 << 28):
        host: Any = SimpleNamespace(device=device, bytes_per_s=4e12)
        problem = spec(elements)
        arena = setup.lay_out(host, problem, 0.08)
        total += memory_needs.of_evaluation(problem, arena, device.round_bytes, CHECK_BYTES)
    assert device.room_bytes is not None
    assert total < device.room_bytes


@pytest.mark.parametrize(
    ("elements", "slots"),
    [
        (1 << 18, problem_spec.Slots(128, 128)),  # 1 MB: expected outputs are drawn with the inputs
        (
            1 << 24,
            problem_spec.Slots(12, 8),
        ),  # 64 MB: as many calls as an eighth of the memory holds
        (1 << 28, problem_spec.Slots(1, 0)),  # 1 GB: a call at a time
    ],
)
def test_larger_problems_have_more_calls_in_a_block_by_making_what_is_expected_when_verifying(
    monkeypatch: pytest.MonkeyPatch, elements: int, slots: problem_spec.Slots
) -> None:
    pretend_gpu(monkeypatch, 139 << 30)
    host = SimpleNamespace(device=open_device("h200", 0, 8), bytes_per_s=4e12)
    assert setup.lay_out(host, spec(elements), 0.08).slots == slots  # type: ignore[arg-type]
    more = setup.lay_out(host, spec(elements), 0.08, 1024).slots  # type: ignore[arg-type]
    assert more.inputs * spec(elements).slot_bytes <= host.device.arena_bytes or more == slots
    assert more.inputs > slots.inputs if slots.together else more == slots


@pytest.mark.parametrize("in_flight", [1, 2, 4, 8])
def test_fewer_evaluations_in_flight_have_no_fewer_calls_in_a_block(
    monkeypatch: pytest.MonkeyPatch, in_flight: int
) -> None:
    """A softmax of 64 MB that streams its calls says 0.45 in place of 1.53 (H200)."""
    pretend_gpu(monkeypatch, 139 << 30)
    host: Any = SimpleNamespace(device=open_device("h200", 0, in_flight), bytes_per_s=4e12)
    slots = setup.lay_out(host, replace(spec(1 << 24), call_us=57.0), 0.08).slots
    assert slots.inputs >= min(60, 96 // in_flight)


@pytest.mark.parametrize(("call_us", "inputs"), [(100.0, 9), (3_400.0, 4), (60_000.0, 2)])
def test_long_calls_reserve_few_slots(
    monkeypatch: pytest.MonkeyPatch, call_us: float, inputs: int
) -> None:
    pretend_gpu(monkeypatch, 139 << 30)
    host = SimpleNamespace(device=open_device("h200", 0, 8), bytes_per_s=4e12)
    problem = replace(spec(1 << 25), call_us=call_us)
    assert setup.lay_out(host, problem, 0.08).slots.inputs == inputs  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("among_others", "ends", "tries"),
    [
        (
            True,
            Fault(Status.OUT_OF_MEMORY, "out_of_memory", "no memory", out_of_memory=True),
            [Room.ONCE, Room.ALONE],
        ),
        (True, invalid("reference_failed", "no memory", out_of_memory=True), THRICE),
        (True, torch.OutOfMemoryError("no memory"), THRICE),
        (True, RuntimeError("CUDA error: out of memory"), THRICE),  # a kernel that is loaded
        (True, DISTURBED, [Room.ONCE, Room.ALONE]),
        (False, DISTURBED, [Room.ONCE]),
        (
            False,
            Fault(Status.OUT_OF_MEMORY, "out_of_memory", "no memory", out_of_memory=True),
            [Room.ONCE],
        ),
        (True, Fault(Status.CRASHED, "crashed", "signal 11"), [Room.ONCE]),
    ],
)
def test_an_evaluation_out_of_memory_or_disturbed_among_others_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, among_others: bool, ends: Exception, tries: list[Room]
) -> None:
    """With more memory if not the candidate lacked it, and at last with all of the device's."""
    seen: list[Room] = []

    def measure(progress: progress.Progress, room: Room) -> None:
        seen.append(room)
        progress.shares_memory = among_others and room is not Room.ALONE
        if room is not Room.ALONE:
            raise ends

    class Concluded:
        timing = None

    monkeypatch.setattr(evaluate, "_run_stages", measure)
    monkeypatch.setattr(evaluate, "conclude", lambda progress, fault: Concluded())
    evaluate.evaluate(JOB, HOST)
    assert seen == tries


def test_an_evaluation_that_has_enough_memory_among_others_is_not_tried_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Room] = []

    def measure(progress: progress.Progress, room: Room) -> None:
        seen.append(room)
        if room is Room.ONCE:
            raise torch.OutOfMemoryError("no memory")

    concluded: list[Fault | None] = []
    monkeypatch.setattr(evaluate, "_run_stages", measure)
    monkeypatch.setattr(
        evaluate,
        "conclude",
        lambda _, fault: concluded.append(fault) or SimpleNamespace(timing=None),
    )
    evaluate.evaluate(JOB, HOST)
    assert seen == [Room.ONCE, Room.TWICE]
    assert concluded == [None]


def test_what_does_not_fit_with_the_device_to_itself_is_too_large_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Fault | None] = []

    def measure(progress: progress.Progress, room: Room) -> None:
        progress.shares_memory = room is not Room.ALONE
        raise torch.OutOfMemoryError("tried to allocate 4.00 GiB")

    class Concluded:
        timing = None

    monkeypatch.setattr(evaluate, "_run_stages", measure)
    monkeypatch.setattr(
        evaluate, "conclude", lambda progress, fault: found.append(fault) or Concluded()
    )
    evaluate.evaluate(JOB, HOST)
    [fault] = found
    assert fault is not None
    assert (fault.status, fault.error.kind) == (Status.INVALID, "problem_too_large")
    assert "tried to allocate 4.00 GiB" in fault.error.message
    assert "100 bytes can be had" in fault.error.message


def test_an_error_of_the_referee_that_is_not_lack_of_memory_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(evaluate, "_run_stages", measure)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        evaluate.evaluate(JOB, HOST)


@pytest.mark.parametrize(
    ("call_bytes", "available_bytes", "kind"),
    [
        (10, None, "out_of_memory"),
        (60, None, "problem_too_large"),
        (10, 200, "out_of_memory"),
        (10, 40, "out_of_memory"),
        (10, 29, "no_room"),  # references of waiting evaluations have the rest
        (32, 95, "problem_too_large"),
    ],
)
def test_a_candidate_is_blamed_where_it_had_more_memory_than_the_reference_needs(
    monkeypatch: pytest.MonkeyPatch, call_bytes: int, available_bytes: int | None, kind: str
) -> None:
    found: list[Fault | None] = []

    def measure(progress: progress.Progress, room: Room) -> None:
        progress.spec = replace(spec(1), peaks=problem_spec.Peaks(call_bytes=call_bytes << 20))
        progress.available_bytes = available_bytes and available_bytes << 20
        raise Fault(Status.OUT_OF_MEMORY, "out_of_memory", "no memory", out_of_memory=True)

    class Concluded:
        timing = None

    host = SimpleNamespace(
        memory_budget=MemoryBudget(100 << 20), device=open_device("cpu", 0, 1), bytes_per_s=1e9
    )
    monkeypatch.setattr(evaluate, "_run_stages", measure)
    monkeypatch.setattr(
        evaluate, "conclude", lambda progress, fault: found.append(fault) or Concluded()
    )
    evaluate.evaluate(JOB, host)  # type: ignore[arg-type]
    [fault] = found
    assert fault is not None
    assert fault.error.kind == kind


def test_a_reference_without_a_twin_needs_memory_for_two_models() -> None:
    with_twin = spec(1 << 10)
    parameter: dict[str, Any] = {
        "kind": "tensor",
        "shape": [1 << 20],
        "stride": None,
        "dtype": "float32",
    }
    large = replace(with_twin, parameters={"w": parameter})
    assert large.parameter_bytes == 4 << 20
    own = replace(large, truth=problem_spec.OWN_TRUTH)
    assert memory_needs.of_models(large) == 4 * large.parameter_bytes
    assert memory_needs.of_models(own) == 2 * large.parameter_bytes
    half = replace(
        large,
        parameters={"w": parameter | {"dtype": "bfloat16"}, "n": parameter | {"dtype": "int8"}},
    )
    assert half.parameter_bytes == 3 << 20
    assert half.twin_bytes == 9 << 20  # four times the halves; integers stay as they are
    assert memory_needs.of_models(half) == 2 * half.parameter_bytes + half.twin_bytes
    assert memory_needs.resident(half) == half.parameter_bytes + half.twin_bytes
    assert memory_needs.resident(own) == own.parameter_bytes


def test_expected_values_take_memory_beside_the_outputs_and_the_references_outputs_do_not() -> None:
    arena = problem_spec.arena(spec(1 << 24), problem_spec.Slots(18, 5))
    assert (arena.baseline, arena.baseline.slots, arena.expected.slots) == (arena.outputs, 18, 5)
    assert (
        arena.reference_bytes - arena.candidate_bytes
        == arena.expected.slots * arena.expected.slot_bytes
    )


@pytest.mark.parametrize(
    ("estimate", "described", "reserved"),
    [
        (1 << 20, False, [1 << 20]),
        (1 << 20, True, []),
        (4 << 30, True, [4 << 30]),
        (4 << 30, False, [4 << 30]),
    ],
)
def test_the_model_of_a_later_session_is_reserved_if_it_is_large(
    monkeypatch: pytest.MonkeyPatch, estimate: int, described: bool, reserved: list[int]
) -> None:
    """A second evaluation of a problem of level 4 makes a model of ten gigabytes,
    and twenty for its twin.
    """
    found: list[int] = []
    monkeypatch.setattr(
        admission, "reserve_memory", lambda progress, memory, need: found.append(need)
    )
    asked: list[bytes] = []
    reference = SimpleNamespace(
        handle=SimpleNamespace(described={0} if described else set(), estimates={}),
        estimate_bytes=lambda seed, timeout_s: asked.append(seed) or estimate,
        describe=lambda *_, **__: spec(1),
    )
    host: Any = SimpleNamespace(
        memory_budget=MemoryBudget(64 << 30),
        references=None,
        device=None,
        device_lock=SimpleNamespace(shared_at_first=nullcontext),
    )
    stages: Any = SimpleNamespace(stage=nullcontext)
    given: dict[str, Any] = {"job": JOB, "resources": host, "stages": stages, "cancellation": None}
    for _ in range(2):
        attempt = progress.Progress(**given, seed=bytes(32), shares_memory=True)
        admission.describe(attempt, reference, 1)  # type: ignore[arg-type]
    assert found == reserved * 2
    assert len(asked) == 1


@pytest.mark.parametrize(("kept_bytes", "has_room"), [(0, True), (32 << 30, False)])
def test_a_twin_has_no_room_in_memory_that_other_programs_keep(
    monkeypatch: pytest.MonkeyPatch, kept_bytes: int, has_room: bool
) -> None:
    total_bytes = 80 << 30
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    properties = SimpleNamespace(total_memory=total_bytes)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    environment = open_device("h100", 0, 1, kept_bytes).environment
    monkeypatch.setenv("EVALUATION_MEMORY_BYTES", environment["EVALUATION_MEMORY_BYTES"])
    weights: dict[str, Any] = {
        "kind": "tensor",
        "shape": [2 << 30],
        "dtype": "float32",
        "stride": None,
    }  # 8 GiB
    gpu = torch.device("cuda", 0)
    assert model_checks.has_room_for_twin(gpu, [weights], 1 << 30) is has_room


@pytest.mark.parametrize("truth", ["fp64", problem_spec.OWN_TRUTH])
def test_the_twin_is_counted_once(truth: str) -> None:
    """Its parameters are memory of the models, not of a computation; the search for the truth has
    made a twin of its own, and has failed where there is none.
    """
    large = spec(1 << 28)
    weights: dict[str, Any] = {"w": large.outputs}
    planned = []
    for peak in (0, 5 << 30):
        twin = replace(large, truth=truth, parameters=weights).twin_bytes
        found = model_checks.truth_bytes(peak + twin, [large.outputs], true_answer.Truth(truth))
        problem = replace(
            large, truth=truth, parameters=weights, peaks=problem_spec.Peaks(truth_bytes=found)
        )
        arena = problem_spec.arena(problem, problem_spec.Slots(1, 0))
        planned.append(memory_needs.of_evaluation(problem, arena, 0, CHECK_BYTES))
    assert planned[1] - planned[0] == (0 if truth == problem_spec.OWN_TRUTH else 4 << 30)


@pytest.mark.parametrize(
    ("gib", "slots", "share"),
    [(139.8, 8, 0.85), (139.8, 1, 0.85), (79.1, 8, 0.74), (79.1, 1, 0.85), (14.7, 2, 0.68)],
)
def test_what_evaluations_may_reserve_leaves_room_for_every_context(
    monkeypatch: pytest.MonkeyPatch, gib: float, slots: int, share: float
) -> None:
    """On a GPU of 80 GB, eight evaluations and twelve warm processes have contexts of 18 GB."""
    total_bytes = int(gib * (1 << 30))
    pretend_gpu(monkeypatch, total_bytes)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    found = open_device("gpu", 0, slots)
    assert found.room_bytes is not None
    processes = found.spares + found.reference_spares + 2 * slots + 1
    contexts = processes * device.CONTEXT_BYTES
    assert found.room_bytes + contexts <= total_bytes
    assert found.room_bytes / total_bytes == pytest.approx(share, abs=0.01)
    assert found.references_kept * device.CONTEXT_BYTES < 0.08 * total_bytes
    assert found.cache_bytes <= min(8 << 30, total_bytes // 16)
