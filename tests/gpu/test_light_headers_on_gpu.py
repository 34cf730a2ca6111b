"""CUDA extensions compiled with light stand-ins for PyTorch's headers, and with its own where
those do not suffice.
"""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

from tests import extension_builds
from workers.sandbox import toolchain

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(toolchain.missing(cuda=True)), reason="needs c++, ninja and nvcc"),
]

KERNEL = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <typename scalar_t>
__global__ void twice(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + x[i];
}

torch::Tensor twice_cuda(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "expected a tensor on a GPU");
    const at::cuda::OptionalCUDAGuard guard(x.device());
    auto out = torch::empty_like(x);
    int n = x.numel();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "twice", ([&] {
        twice<scalar_t><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
    }));
    return SHIFTED;
}
"""

DECLARED = "torch::Tensor twice_cuda(torch::Tensor x);"


@pytest.mark.parametrize(
    ("answer", "attempts"), [("out", 1), ("torch::nn::functional::relu(out)", 2)]
)
def test_a_cuda_extension_is_compiled(
    answer: str, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in toolchain.environment().items():
        monkeypatch.setenv(name, value)
    made = extension_builds.counted(tmp_path, monkeypatch)
    source = KERNEL.replace("SHIFTED", answer)
    built = partial(cpp_extension.load_inline, f"twice_{attempts}", DECLARED, source)
    module = built(functions=["twice_cuda"])
    x = torch.randn(1000, device="cuda")
    expected = 2 * x if attempts == 1 else (2 * x).relu()
    assert torch.equal(module.twice_cuda(x), expected)
    assert len(made) == attempts
