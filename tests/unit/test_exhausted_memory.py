"""Lack of device memory in the words of torch, the driver and the libraries."""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.evaluation import Status
from app.domain.job import Job
from workers.protocol import exhausted_memory
from workers.protocol.control_channel import ReplyCode
from workers.referee.host.device import open_device
from workers.referee.processes.process_handle import FailedError
from workers.referee.session.fault_attribution import (
    AttributeToCandidate,
    AttributeToProblem,
    Fault,
)
from workers.shims import call_errors

CERTAIN = (
    "CUDA out of memory. Tried to allocate 8.00 GiB.",
    "Triton Error [CUDA]: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDA error: CUSPARSE_STATUS_ALLOC_FAILED when calling `cusparseCreate(handle)`",
    "cuFFT error: CUFFT_ALLOC_FAILED",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory",
)
POSSIBLE = (
    "GET was unable to find an engine to execute this computation after trying 4 plans.",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
)
NEITHER = (
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
    "out of resource: shared memory, Required: 270336, Hardware limit: 232448.",
    "cuDNN error: CUDNN_STATUS_BAD_PARAM",
)
JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")
SPEC: Any = SimpleNamespace()


@pytest.mark.parametrize("message", [*CERTAIN, *POSSIBLE, *NEITHER])
def test_a_message_says_so_or_may_mean_it(message: str) -> None:
    assert exhausted_memory.is_said_by(message) is (message in CERTAIN)
    assert message in CERTAIN or exhausted_memory.may_be_meant_by(message) is (message in POSSIBLE)
    found = call_errors.outcome_of(RuntimeError(message), ReplyCode.CALL_FAILED)
    assert found is (ReplyCode.OUT_OF_MEMORY if message in CERTAIN else ReplyCode.CALL_FAILED)


@pytest.mark.parametrize("message", [*POSSIBLE, *NEITHER])
def test_a_failure_that_may_be_lack_of_memory_is_repeated_alone_and_keeps_its_status(
    message: str,
) -> None:
    gpu = replace(open_device("cpu", 0, 1), torch_device=torch.device("cuda", 0))
    failed = FailedError(ReplyCode.CALL_FAILED, f"RuntimeError: {message}")
    with pytest.raises(Fault) as candidates, AttributeToCandidate(JOB, gpu):
        raise failed
    assert (candidates.value.status, candidates.value.out_of_memory) == (
        Status.RUNTIME_ERROR,
        False,
    )
    with (
        pytest.raises(Fault) as problems,
        AttributeToProblem(SimpleNamespace(), None, open_device("cpu", 0, 1)),
    ):
        raise failed
    assert (problems.value.status, problems.value.out_of_memory) == (Status.INVALID, False)
    assert candidates.value.disturbed is problems.value.disturbed is (message in POSSIBLE)
