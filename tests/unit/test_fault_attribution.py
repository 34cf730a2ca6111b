"""Attribution of faults to candidate, problem or referee."""

import json
import uuid
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.evaluation import Status
from app.domain.job import Job
from workers.protocol.control_channel import ReplyCode
from workers.referee.comparison.correctness import Rule, SecondLook
from workers.referee.host.device import open_device
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.processes.process_handle import FailedError, decoding
from workers.referee.session import variant_calls
from workers.referee.session.deadline import Deadline
from workers.referee.session.fault_attribution import (
    AttributeToCandidate,
    AttributeToProblem,
    Fault,
    attribute_to_profiling,
    lacks_interpreter_support,
    may_be_interpreter_fault,
    names_a_gpu,
)
from workers.referee.session.reference_side import ReferenceFailedError, reference_side
from workers.sandbox.process_errors import BrokenProtocolError, Ended, TimedOut
from workers.shims.builder import KILLED

JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"tl.bfloat16", backend="triton")


@pytest.mark.parametrize(
    ("candidate", "backend", "beyond"),
    [
        (b"x.to(tl.float8e4b15)", "triton", True),
        (b'tl.load(at, boundary_check=(0,), padding_option = "nan")', "triton", True),
        (b"tl.bfloat16", "triton", False),
        (b"tl.float32  # not tl.float8e4b15", "triton", False),
        (b"name = 'tl.float8e4b15'", "triton", False),
        (b'x.to(tl.float8e5, fp_downcast_rounding="rtz")', "triton", False),
        (b"tl.atomic_add(at, x.to(tl.bfloat16))", "triton", False),
        (b"x.to(tl.float8e4b15)", "torch", False),
        (b"x.to(tl.float8e4b15", "triton", False),
    ],
)
def test_only_conversions_that_the_interpreter_may_get_wrong_excuse_a_wrong_answer(
    candidate: bytes, backend: str, beyond: bool
) -> None:
    job, cpu = replace(JOB, candidate=candidate, backend=backend), open_device("cpu", 0, 1)
    assert may_be_interpreter_fault(job, cpu) is beyond
    assert not may_be_interpreter_fault(job, replace(cpu, torch_device=torch.device("cuda", 0)))


EMPTY_FUNCTION = "InterpreterError: AttributeError(\"'NoneType' object has no attribute 'type'\")"
ATOMIC = "InterpreterError: ValueError('Unsupported data type')"
SCALED = "InterpreterError: AttributeError(\"'str' object has no attribute 'value'\")"
ASSEMBLY = "InterpreterError: NotImplementedError('inline_asm not supported in interpreter mode')"


@pytest.mark.parametrize(
    ("candidate", "backend", "message", "beyond"),
    [
        (b"tl.inline_asm_elementwise(", "triton", ASSEMBLY, True),
        (
            b"libdevice.ilogb(x)",
            "triton",
            "libdevice's __nv_ilogbf not supported in interpreter mode",
            True,
        ),
        (b"tl.inline_asm_elementwise(", "triton", "ValueError: no", False),
        (b"exec_module(libdevice)", "triton", EMPTY_FUNCTION, True),
        (b"x = None; x.type", "triton", EMPTY_FUNCTION, False),
        (b"tl.atomic_add(at, x.to(tl.bfloat16))", "triton", ATOMIC, True),
        (b"raise ValueError('Unsupported data type')", "triton", ATOMIC, False),
        (b"tl.dot_scaled(", "triton", SCALED, True),
        (
            b"tl.bfloat16",
            "triton",
            "InterpreterError: NameError(\"name 'y' is not defined\")",
            False,
        ),
        (
            b"raise NotImplementedError('not supported in interpreter mode')",
            "triton",
            ASSEMBLY,
            False,
        ),
        (b"tl.inline_asm_elementwise(", "torch", ASSEMBLY, False),
    ],
)
def test_instructions_that_the_interpreter_lacks_are_excused(
    candidate: bytes, backend: str, message: str, beyond: bool
) -> None:
    job, cpu = replace(JOB, candidate=candidate, backend=backend), open_device("cpu", 0, 1)
    assert lacks_interpreter_support(job, cpu, message) is beyond
    assert not lacks_interpreter_support(
        job, replace(cpu, torch_device=torch.device("cuda", 0)), message
    )


NO_KERNEL = (
    "NotImplementedError: Could not run 'own::silu' with arguments from the 'CPU' backend. This"
    " could be because the operator doesn't exist for this backend.\n'own::silu' is only available"
    " for these backends: [{}].\n\nCPU: registered at fallback.cpp:1"
)


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", True),
        ("RuntimeError: Cannot get CUDA generator without ATen_cuda library.", True),
        ("RuntimeError: 0 active drivers ([]). There should only be one.", True),
        ("ValueError: Expected a cuda device, but got: cpu", True),
        ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", True),
        ("ValueError: Input tensor must be on CUDA device", True),
        ("RuntimeError: This Triton implementation requires CUDA tensors.", True),
        (NO_KERNEL.format("CUDA, Meta, BackendSelect, AutogradCPU, AutocastCPU"), True),
        (NO_KERNEL.format("CPU, CUDA, Meta, BackendSelect, AutogradCPU"), False),
        (NO_KERNEL.format("Meta, SparseCPU, SparseCUDA, BackendSelect, AutogradCPU"), False),
        ("AssertionError: the number of columns must be a power of two", False),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", False),
        ("KeyError: 'cuda tensor'", False),
    ],
)
def test_a_gpu_that_is_asked_for_by_name_is_no_fault_where_there_is_none(
    message: str, asks: bool
) -> None:
    cpu = open_device("cpu", 0, 1)
    assert names_a_gpu(cpu, message) is asks
    assert not names_a_gpu(replace(cpu, torch_device=torch.device("cuda", 0)), message)


TRACEBACK = """Traceback (most recent call last):
  File "candidate.py", line 30, in forward
    return add(x, y)
  File "candidate.py", line 23, in add
    assert {check}
AssertionError: {message}
"""


@pytest.mark.parametrize(
    ("check", "asks"),
    [
        ("x.is_cuda and y.is_cuda", True),
        ('x.device.type == "cuda"', True),
        ("x.device.type == DEVICE", True),
        ("x.is_contiguous()", False),
    ],
)
def test_a_candidates_own_check_for_a_gpu_is_no_fault_where_there_is_none(
    check: str, asks: bool
) -> None:
    log = TRACEBACK.format(check=check, message="")
    assert names_a_gpu(open_device("cpu", 0, 1), "AssertionError: ", log) is asks


def test_only_the_line_that_raised_is_a_check_for_a_gpu() -> None:
    log = TRACEBACK.format(check="n % 8 == 0", message="").replace(
        "return add(x, y)", "return add(x, y) if x.is_cuda"
    )
    assert not names_a_gpu(open_device("cpu", 0, 1), "AssertionError: ", log)


RAISES = """def forward(x, n):
    if {condition}:
        raise ValueError("x must be on an accelerator")
    return add(x)
"""


@pytest.mark.parametrize(
    ("condition", "asks"),
    [
        ('x.device.type == "cpu"', True),
        ("not (x.device.type in KINDS)", True),
        ("n % 8", False),
        ('n % 8:\n        pass\n    if x.device.type == "cpu"', False),
    ],
)
def test_a_check_on_which_the_line_that_raised_depends_is_one_for_a_gpu(
    condition: str, asks: bool
) -> None:
    source = RAISES.format(condition=condition)
    log = (
        'Traceback (most recent call last):\n  File "candidate.py", line 3, in forward\n'
        '    raise ValueError("x must be on an accelerator")\nValueError: x must be ...\n'
    )
    cpu, message = open_device("cpu", 0, 1), "ValueError: x must be on an accelerator"
    assert names_a_gpu(cpu, message, log, source.encode()) is asks
    assert not names_a_gpu(cpu, message, log)


SESSION: Any = SimpleNamespace(handle=None)
REFERENCES: Any = SimpleNamespace(discard=lambda handle: None, end_stuck=lambda handle: None)


@pytest.mark.parametrize(
    "error", [ValueError("a slip"), KeyError("a slip"), TypeError(), IndexError(), RuntimeError()]
)
def test_an_error_in_the_referees_own_code_is_attributed_to_neither_side(error: Exception) -> None:
    with pytest.raises(type(error)), AttributeToCandidate(JOB, open_device("cpu", 0, 1)):
        raise error
    with (
        pytest.raises(type(error)),
        AttributeToProblem(REFERENCES, SESSION, open_device("cpu", 0, 1)),
    ):
        raise error
    with pytest.raises(type(error)), reference_side(UnchargedTime()):
        raise error


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", "needs_gpu"),
        ("RuntimeError: Expected a cuda device, but got: cpu", "needs_gpu"),
        (
            "RuntimeError: Expected one of cpu, cuda device type at start of device string: npu",
            "reference_failed",
        ),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "reference_failed"),
    ],
)
def test_a_reference_that_names_a_gpu_needs_one(message: str, kind: str) -> None:
    with (
        pytest.raises(Fault) as caught,
        AttributeToProblem(REFERENCES, SESSION, open_device("cpu", 0, 1)),
    ):
        raise FailedError(ReplyCode.CALL_FAILED, message)
    assert (caught.value.status, caught.value.error.kind) == (Status.INVALID, kind)
    assert message in caught.value.error.message
    assert "the candidate" not in caught.value.error.message


def test_a_broken_protocol_is_attributed_to_the_side_that_broke_it() -> None:
    with (
        pytest.raises(Fault) as caught,
        AttributeToCandidate(JOB, open_device("cpu", 0, 1)),
    ):
        raise BrokenProtocolError("3 bytes")
    assert (caught.value.status, caught.value.error.kind) == (Status.CRASHED, "malformed_answer")
    with (
        pytest.raises(Fault) as caught,
        AttributeToProblem(REFERENCES, SESSION, open_device("cpu", 0, 1)),
    ):
        raise BrokenProtocolError("3 bytes")
    assert (caught.value.status, caught.value.error.kind) == (Status.INVALID, "reference_failed")
    with pytest.raises(ReferenceFailedError), reference_side(UnchargedTime()):
        raise BrokenProtocolError("3 bytes")


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", '{"l2": "x", "largest": 0}', '{"l2": -1, "largest": 0}', "[" * 10**5]
)
def test_whatever_a_malformed_answer_raises_is_the_answers_fault(text: str) -> None:
    with pytest.raises(BrokenProtocolError), decoding():
        SecondLook.checked(json.loads(text))


@pytest.mark.parametrize(
    ("error", "left_s", "kind"),
    [
        (FailedError(ReplyCode.CALL_FAILED, "RuntimeError: no tracer\nlog"), 9.0, "profile_failed"),
        (Ended(status=11), 9.0, "profile_failed"),
        (TimedOut(), 9.0, "profile_failed"),
        (TimedOut(), 0.0, "timeout"),
        (FailedError(ReplyCode.OUT_OF_MEMORY, "no memory\n"), 9.0, "out_of_memory"),
        (Ended(status=9, out_of_memory=True), 9.0, "out_of_memory"),
        (BrokenProtocolError("3 bytes"), 9.0, "malformed_answer"),
    ],
)
def test_a_failure_while_calls_are_profiled_is_not_scored(
    error: Exception, left_s: float, kind: str
) -> None:
    candidate = AttributeToCandidate(JOB, open_device("cpu", 0, 1))
    with (
        pytest.raises(Fault) as caught,
        candidate,
        attribute_to_profiling(Deadline(left_s, left_s)),
    ):
        raise error
    assert caught.value.error.kind == kind
    assert (caught.value.status is Status.INVALID) is (kind == "profile_failed")


def test_a_candidate_that_is_not_loaded_in_time_is_told_so() -> None:
    cpu = open_device("cpu", 0, 1)
    with pytest.raises(Fault) as caught, AttributeToCandidate(JOB, cpu):
        raise TimedOut
    assert "while its source was executed or its model constructed" in caught.value.error.message
    compiled = AttributeToCandidate(replace(JOB, backend="cuda"), cpu)
    with pytest.raises(Fault) as caught, compiled:
        raise TimedOut
    assert caught.value.error.message.endswith("(at most 120 s in all)")
    loaded = AttributeToCandidate(JOB, cpu)
    loaded.note_loaded()
    with pytest.raises(Fault) as caught, loaded:
        raise TimedOut
    assert caught.value.error.message.startswith("no answer in time (at most ")


def test_an_end_by_a_signal_without_a_name_has_a_message() -> None:
    assert str(Ended(status=40)) == "the process was killed by signal 40"
    assert str(Ended(status=11)) == "the process was killed by signal 11 (SIGSEGV)"


@pytest.mark.parametrize(
    ("message", "is_ours"),
    [
        ("`ptxas` failed with error code -9\n`ptxas` stderr:\n", True),
        ("OSError: [Errno 28] No space left on device", True),
        ("`ptxas` failed with error code 1\nptxas error : Illegal operand", False),
        ("`ptxas` raised SIGSEGV", False),
    ],
)
def test_a_compiler_that_was_killed_is_no_fault_of_the_kernel(message: str, is_ours: bool) -> None:
    assert bool(KILLED.search(message)) is is_ours


def test_an_error_on_unusual_inputs_says_so() -> None:
    lock = SimpleNamespace(shared=nullcontext)
    runner: Any = SimpleNamespace(
        streams=False, are_costly=False, kinds_at_once=4, device_lock=lock
    )
    runner.arena = SimpleNamespace(outputs=SimpleNamespace(leaves=()))
    runner.record = SimpleNamespace(rule=Rule())

    def refuse(*_: object) -> None:
        raise FailedError(ReplyCode.CALL_FAILED, "IndexError: index 512\nTraceback\n")

    runner.draw_unusual = refuse
    with pytest.raises(FailedError) as caught:
        variant_calls.try_variants(runner, [])
    assert (
        caught.value.message
        == "IndexError: index 512 (on inputs with other values than get_inputs() gives)"
    )
    assert (caught.value.outcome, caught.value.log) == (ReplyCode.CALL_FAILED, "Traceback\n")
