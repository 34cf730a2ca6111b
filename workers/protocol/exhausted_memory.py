"""Messages with which torch, the driver and the libraries report that device memory ran out."""

from __future__ import annotations

_CERTAIN = (
    "allocate memory",
    "out of memory",
    "OUT_OF_MEMORY",
    "ALLOC_FAILED",
    "ALLOCATION_FAILED",
    "cudaErrorMemoryAllocation",
)
"""Parts of messages that have no other cause: CUBLAS_STATUS_ALLOC_FAILED, CUFFT_ALLOC_FAILED,
the status CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED of cuDNN 9,
CUDA_ERROR_OUT_OF_MEMORY of the driver.
"""

_POSSIBLE = (
    "unable to find an engine to execute",
    "Unable to find a valid cuDNN algorithm",
    "STATUS_NOT_INITIALIZED",
    "CUBLAS_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_INTERNAL_ERROR",
    "CUFFT_INTERNAL_ERROR",
    "INSUFFICIENT_RESOURCES",
)
"""Parts of messages that may have this cause among others: torch tries each of cuDNN's engines, and
says that there is none if every workspace was too large; cuBLAS and cuDNN cannot be initialized
without memory for their handles.
"""


def is_said_by(message: str) -> bool:
    """Test whether the message says that memory ran out."""
    return any(words in message for words in _CERTAIN)


def may_be_meant_by(message: str) -> bool:
    """Test whether lack of memory may be the cause of an error with this message,
    although it does not say so.
    """
    return any(words in message for words in _POSSIBLE)
