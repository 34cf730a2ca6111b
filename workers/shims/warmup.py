"""Work done before a candidate or a problem arrives: a context on the device, and the first Triton
compile or the first operations.

Each takes a good part of a second and depends on neither.  The part that needs no device is done
once, in the zygote, for all its forks.
"""

from __future__ import annotations

import os
import traceback

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from workers.shims.heap import Fillers

_fillers: list[Fillers] = []
"""Fillers of the zygote's heap, which live as long as it."""


@triton.jit
def _add_one(pointer, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803 (Triton's habit)
    offsets = tl.arange(0, BLOCK)
    tl.store(pointer + offsets, tl.load(pointer + offsets) + 1)


def make_context(device: torch.device) -> None:
    """Create the device's context and the allocator.  The driver creates one context at a
    time, which disturbs a timing that runs meanwhile; so the referee requests it outside of
    timings, if it is to be steady.

    A fill is the only operation: the driver takes 15 to 30 ms to load another one (H200).
    """
    torch.zeros(64, device=device).cpu()


def compile_first(device: torch.device) -> None:
    """Compile and launch a kernel, so that the compiler's modules are loaded.  Only
    the launch uses the device.
    """
    _add_one[(1,)](torch.zeros(64, device=device), BLOCK=64)
    if device.type == "cuda":
        torch.cuda.synchronize()


def load_operations(device: torch.device) -> None:
    """Run the operations that describing a problem takes, whatever it computes: draws, copies in
    fp64, comparisons, norms, and a product and a convolution of the libraries.

    The driver takes 10 to 30 ms to load an operation, and a library 50 to 90 ms.  Together they
    were a third of the time in which a reference described its problem, and a fresh context another
    third (H200, ten problems of KernelBench, 700 to 1,300 ms each).
    """
    for dtype in (torch.float32, torch.float64):
        drawn = torch.randn(64, 64, device=device).to(dtype)
        other = torch.rand(64, 64, device=device).to(dtype)
        product = drawn @ other
        image, kernel = drawn.view(1, 1, 64, 64), other[:3, :3].reshape(1, 1, 3, 3).contiguous()
        torch.nn.functional.conv2d(image, kernel)
        for found in (
            torch.linalg.vector_norm((product - drawn).nan_to_num()),
            torch.isfinite(product).all(),
            (drawn > other).any(),
            drawn.abs().max() + 1,
            torch.randn_like(drawn).mul(2).add(1).square().sum(1).sqrt().max(),
        ):
            found.item()
        torch.equal(drawn.clone().copy_(product), torch.maximum(drawn, other))
    torch.randint(0, 10, (64,), device=device).sum().item()


def load_compiler() -> None:
    """Compile, in a zygote, a kernel that is never launched, so that forks have the compiler's
    modules (0.35 s of a processor), which do not depend on the target.  It starts no thread.
    """
    source = ASTSource(_add_one, {"pointer": "*fp32", "BLOCK": "constexpr"}, {(1,): 64})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))


def load_modes() -> None:
    """Compute, in a zygote, on torch's meta device.  The 800 modules that torch loads with the
    first tensor there take a second of a processor, and each reference's process needs them.
    """
    with torch.device("meta"), torch.no_grad():
        torch.nn.Linear(1, 1)(torch.ones(1, 1))


def build_stubs(device: torch.device) -> None:
    """Have Triton build the stubs through which it calls the driver, with the C compiler, into the
    cache that forks copy.  Without it each fork takes half a second of a processor for them.  A
    child process does it, because a zygote must have no context on the device.
    """
    pid = os.fork()
    if pid == 0:
        try:
            compile_first(device)
        except BaseException:  # noqa: BLE001 (nothing of this process may go on)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(
            f"a first Triton kernel could not be compiled and launched on {device}: see above"
        )


def fill_heap() -> None:
    """Fill the holes that the libraries have left in a zygote's heap, so that its forks have few
    (heap.py).
    """
    _fillers.append(Fillers())
