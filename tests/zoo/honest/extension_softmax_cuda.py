# zoo: problem=row_softmax backend=cuda status=passed verdict=clean findings=- needs=gpu
"""A block a row, reductions by warp shuffles, on the current stream."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>

template <bool MAX> __device__ float reduce(float v, float* shared) {
    for (int o = 16; o > 0; o >>= 1) {
        float w = __shfl_xor_sync(0xffffffffu, v, o);
        v = MAX ? fmaxf(v, w) : v + w;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : (MAX ? -FLT_MAX : 0.f);
    if (threadIdx.x < 32) {
        for (int o = 16; o > 0; o >>= 1) {
            float w = __shfl_xor_sync(0xffffffffu, v, o);
            v = MAX ? fmaxf(v, w) : v + w;
        }
        if (threadIdx.x == 0) shared[0] = v;
    }
    __syncthreads();
    return shared[0];
}

__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float shared[32];
    x += (long)blockIdx.x * n;
    y += (long)blockIdx.x * n;
    float top = -FLT_MAX, total = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, x[i]);
    top = reduce<true>(top, shared);
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += expf(x[i] - top);
    total = reduce<false>(total, shared);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - top) / total;
}

torch::Tensor softmax_forward(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    softmax_kernel<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

module = load_inline(
    name="row_softmax",
    cpp_sources="torch::Tensor softmax_forward(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["softmax_forward"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.softmax_forward(x)
