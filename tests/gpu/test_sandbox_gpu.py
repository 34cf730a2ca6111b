"""The sandbox on a host with a GPU: layers that stop candidates must not stop CUDA."""

import pytest

from workers.sandbox import selftest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def test_a_context_and_a_triton_kernel_work_within_all_layers() -> None:
    assert selftest.try_cuda() == ""


def test_nothing_forbidden_succeeds() -> None:
    assert selftest.run().succeeded == ()
