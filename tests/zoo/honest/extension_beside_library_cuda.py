# zoo: problem=linear_gelu backend=cuda status=passed verdict=clean findings=- needs=gpu
"""The library multiplies; a CUDA kernel fuses bias and GELU."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
__global__ void bias_gelu(const float* z, const float* bias, float* out, int total, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    float v = z[i] + bias[i % columns];
    out[i] = 0.5f * v * (1.f + erff(v * 0.70710678f));
}
torch::Tensor bias_gelu_forward(torch::Tensor z, torch::Tensor bias) {
    auto out = torch::empty_like(z);
    int total = z.numel();
    bias_gelu<<<(total + 255) / 256, 256>>>(
        z.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), total, z.size(1));
    return out;
}
"""

module = load_inline(
    name="bias_gelu",
    cpp_sources="torch::Tensor bias_gelu_forward(torch::Tensor z, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["bias_gelu_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return module.bias_gelu_forward(torch.matmul(x, self.linear.weight.t()), self.linear.bias)
