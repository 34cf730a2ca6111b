# zoo: problem=scaled_add backend=cuda status=passed verdict=clean findings=- needs=gpu
"""CUDA C++ through load_inline, as KernelBench's own example shows it."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void scaled_add_kernel(const float* x, const float* y, float* out, float alpha, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = alpha * x[i] + y[i];
}

torch::Tensor scaled_add_cuda(torch::Tensor x, torch::Tensor y, double alpha) {
    auto out = torch::empty_like(x);
    int size = x.numel();
    scaled_add_kernel<<<(size + 255) / 256, 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), (float)alpha, size);
    return out;
}
"""

cpp_source = "torch::Tensor scaled_add_cuda(torch::Tensor x, torch::Tensor y, double alpha);"

scaled_add = load_inline(
    name="scaled_add",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["scaled_add_cuda"],
    verbose=False,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaled_add = scaled_add

    def forward(self, x, y, alpha):
        return self.scaled_add.scaled_add_cuda(x, y, alpha)
