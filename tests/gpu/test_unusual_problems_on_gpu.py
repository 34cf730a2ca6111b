"""Problems on a GPU whose inputs are drawn on the host, which have floats of one byte, or which
convolve: honest candidates pass.

    pytest -m gpu --noconftest tests/gpu/test_unusual_problems_on_gpu.py
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from app.domain import problem_check
from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

DRAWN = """
import numpy
import torch
CONSTANT = torch.randn(64, 256)
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)
def get_inputs():
    return [{drawn}]
"""
ON_THE_HOST = {
    "generator": (
        "torch.randn(64, 256, generator=torch.Generator().manual_seed(int(torch.randint(1 << 31,"
        " ()))))"
    ),
    "numpy": "torch.from_numpy(torch.randn(64, 256).numpy() + numpy.float32(1))",
    "pinned": "torch.randn(64, 256).pin_memory()",
    "constant": "torch.randn(64, 256) + CONSTANT",
    "moved": "torch.randn(64, 256, device='cpu').to('cuda')",
}

ONE_BYTE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        one = torch.ones((), device=x.device)
        product = torch._scaled_mm(x, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        return product, (product.float() / 64).to(torch.float8_e4m3fn)
def get_inputs():
    x, y = torch.randn(128, 256), torch.randn(64, 256)
    return [x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn)]
"""

CONVOLUTION = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 64, 3)
    def forward(self, x):
        return self.conv(x)
def get_inputs():
    return [torch.randn(16, 3, 128, 256)]
"""
CHANNELS_LAST = CONVOLUTION.replace("class Model(", "class ModelNew(").replace(
    "self.conv(x)",
    "torch.nn.functional.conv2d(x.contiguous(memory_format=torch.channels_last), self.conv.weight,"
    " self.conv.bias)",
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test", lock_folder=tmp_path_factory.mktemp("leases")) as started:
        started.wait_ready()
        yield started


def _evaluated(host: Any, reference: str, candidate: str | None = None) -> Evaluation:
    from workers.referee.measure import measure

    source = problem_check.identity(reference.encode()) if candidate is None else candidate.encode()
    options = JobOptions(call_timeout_s=10, deadline_s=60, timing_budget_s=0.05)
    job = Job(
        job_id=uuid4(),
        reference=reference.encode(),
        candidate=source,
        backend="torch",
        options=options,
    )
    return measure(job, host)[0]


@pytest.mark.parametrize("place", ON_THE_HOST)
def test_inputs_that_are_drawn_on_the_host(host: Any, place: str) -> None:
    found = _evaluated(host, DRAWN.format(drawn=ON_THE_HOST[place]))
    assert found.status is Status.PASSED, found.error


def test_floats_of_one_byte(host: Any) -> None:
    found = _evaluated(host, ONE_BYTE)
    assert found.status is Status.PASSED, found.error
    assert found.correctness is not None
    assert not [reason for reason in found.correctness.excused if "NotImplementedError" in reason]


def test_a_convolution_by_the_library_in_another_layout(host: Any) -> None:
    found = _evaluated(host, CONVOLUTION, CHANNELS_LAST)
    assert found.status is Status.PASSED, found.error
