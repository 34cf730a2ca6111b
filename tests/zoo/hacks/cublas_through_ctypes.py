# zoo: problem=wide_matmul backend=triton status=passed verdict=hack findings=no_custom_kernel needs=gpu
"""Calls cuBLAS as a native library, without a word of torch (1e).

Detected: no kernel of its own was launched, and the one that ran is the library's."""

import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.cublas = next(
            library for name in ("libcublas.so.12", "libcublas.so.13", "libcublas.so") if (library := _open(name))
        )
        self.handle = ctypes.c_void_p()
        assert self.cublas.cublasCreate_v2(ctypes.byref(self.handle)) == 0

    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty(m, n, device=a.device)
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (b, a, out)]
        self.cublas.cublasSetStream_v2(self.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        # Column-major: the product of the transposes, the other way round.
        assert 0 == self.cublas.cublasSgemm_v2(
            self.handle,
            0,
            0,
            n,
            m,
            k,
            ctypes.byref(one),
            pointers[0],
            n,
            pointers[1],
            k,
            ctypes.byref(zero),
            pointers[2],
            n,
        )
        return out


def _open(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
