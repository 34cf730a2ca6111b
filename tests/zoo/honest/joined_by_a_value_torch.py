# zoo: problem=wide_matmul backend=torch status=passed verdict=clean findings=- needs=gpu
"""Two halves of a product on two streams, one of which waits for a value that the other writes, within the call."""

import ctypes

import torch
from torch import nn

CUDA = ctypes.CDLL("libcuda.so.1")
AT_LEAST = 0


def driver(name, stream, word, value):
    code = getattr(CUDA, name)(
        ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p(word.data_ptr()), ctypes.c_uint(value), AT_LEAST
    )
    if code:
        raise RuntimeError(f"{name}: {code}")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.upper, self.lower = torch.cuda.Stream(), torch.cuda.Stream()
        self.word = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.calls = 0

    def forward(self, a, b):
        self.calls += 1
        current = torch.cuda.current_stream()
        half = a.shape[0] // 2
        out = torch.empty(a.shape[0], b.shape[1], device=a.device)
        for stream, rows in ((self.lower, slice(half, None)), (self.upper, slice(0, half))):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                torch.matmul(a[rows], b, out=out[rows])
        driver("cuStreamWriteValue32_v2", self.lower, self.word, self.calls)
        driver("cuStreamWaitValue32_v2", self.upper, self.word, self.calls)
        current.wait_stream(self.upper)
        return out
