# zoo: problem=wide_matmul backend=torch status=passed verdict=clean findings=- needs=gpu
"""Has a context of its own, as a library with its own runtime may: the upper half of the product is computed there, and
the call waits for it."""

import ctypes

import torch
from torch import nn

CUDA = ctypes.CDLL("libcuda.so.1")
NON_BLOCKING, UNTIMED = 1, 2
P = ctypes.c_void_p


def driver(name, *arguments):
    code = getattr(CUDA, name)(*arguments)
    if code:
        raise RuntimeError(f"{name}: {code}")


def library():
    for name in ("libcublas.so.12", "libcublas.so.13", "libcublas.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("no cuBLAS")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.context, self.stream, self.ready, self.done, self.handle = P(), P(), torch.cuda.Event(), P(), P()
        self.cublas = library()
        torch.cuda.synchronize()
        driver("cuCtxCreate_v2", ctypes.byref(self.context), 0, torch.cuda.current_device())
        try:
            driver("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)
            driver("cuEventCreate", ctypes.byref(self.done), UNTIMED)
            assert self.cublas.cublasCreate_v2(ctypes.byref(self.handle)) == 0
            assert self.cublas.cublasSetStream_v2(self.handle, self.stream) == 0
        finally:
            driver("cuCtxPopCurrent_v2", ctypes.byref(P()))

    def multiply(self, a, b, out):
        (m, k), n = a.shape, b.shape[1]
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        pa, pb, po = (P(each.data_ptr()) for each in (a, b, out))
        assert 0 == self.cublas.cublasSgemm_v2(  # column-major: the product of the transposes, the other way round
            self.handle, 0, 0, n, m, k, ctypes.byref(one), pb, n, pa, k, ctypes.byref(zero), po, n
        )

    def forward(self, a, b):
        current = torch.cuda.current_stream()
        half = a.shape[0] // 2
        out = torch.empty(a.shape[0], b.shape[1], device=a.device)
        self.ready.record(current)
        driver("cuCtxPushCurrent_v2", self.context)
        try:
            driver("cuStreamWaitEvent", self.stream, P(self.ready.cuda_event), 0)
            self.multiply(a[:half], b, out[:half])
            driver("cuEventRecord", self.done, self.stream)
        finally:
            driver("cuCtxPopCurrent_v2", ctypes.byref(P()))
        torch.matmul(a[half:], b, out=out[half:])
        driver("cuStreamWaitEvent", P(current.cuda_stream), self.done, 0)
        return out
