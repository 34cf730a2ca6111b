"""Rows of launches between a candidate's process and the referee, and a profiler's
trace of them.
"""

import mmap
from pathlib import Path
from typing import Any

import pytest

from workers.protocol import control_channel, launch_records
from workers.protocol.launch_records import Launch
from workers.shims import kineto

SOFTMAX = Launch(
    name="softmax",
    origin="triton",
    start_ns=1000,
    duration_ns=500,
    stream=7,
    grid=(4096, 1, 1),
    block=(128, 1, 1),
    registers=32,
    shared_bytes=64,
)


def _mailbox(rows: bytes) -> mmap.mmap:
    mailbox = mmap.mmap(-1, control_channel.MAILBOX_BYTES)
    mailbox[control_channel.LAUNCHES_AT : control_channel.LAUNCHES_AT + len(rows)] = rows
    return mailbox


def test_launches_come_out_as_they_went_in() -> None:
    interpreted = Launch(
        name="plain", origin="triton", duration_ns=3, product_flops=1 << 50, operator=7
    )
    assert launch_records.read(_mailbox(launch_records.packed([SOFTMAX, interpreted])), 2) == [
        SOFTMAX,
        interpreted,
    ]


def test_a_lying_process_gets_no_further_than_its_rows() -> None:
    mailbox = _mailbox(b"\xff" * control_channel.LAUNCHES_BYTES)
    read = launch_records.read(mailbox, 1 << 40)
    assert len(read) == launch_records.MOST
    assert {launch.origin for launch in read} == {"unknown"}
    assert (
        len(launch_records.packed([SOFTMAX] * (launch_records.MOST + 5)))
        <= control_channel.LAUNCHES_BYTES
    )


def test_what_overlaps_counts_once() -> None:
    at = [Launch(name="k", origin="triton", start_ns=start, duration_ns=10) for start in (0, 5, 30)]
    assert launch_records.busy_ns(at) == 25
    assert launch_records.busy_ns([]) == 0


def _event(
    category: str, name: str, began: float, duration: float, tid: int = 1, **arguments: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 9,
        "tid": tid,
        "ts": began,
        "dur": duration,
        "args": arguments,
    }


def _on_device(name: str, began: float, correlation: int, duration: float = 2.0) -> dict[str, Any]:
    return _event(
        "kernel",
        name,
        began,
        duration,
        tid=7,
        correlation=correlation,
        stream=7,
        grid=[8, 1, 1],
        block=[64, 1, 1],
        **{"registers per thread": 16, "shared memory": 0},
    )


TRACE = [
    {"ph": "M", "name": "process_name"},
    _event("cpu_op", "aten::linear", 0, 20),
    _event("cpu_op", "aten::addmm", 2, 15),
    _event("cuda_runtime", "cudaLaunchKernel", 5, 1, correlation=1),
    _event("cuda_driver", "cuLaunchKernelEx", 30, 1, correlation=2),
    _event("cuda_runtime", "cudaLaunchKernel", 40, 1, correlation=3),
    _event("cuda_driver", "cuLaunchKernelEx", 50, 1, correlation=4),
    _event("cpu_op", "mine::twice", 60, 20),
    _event("cuda_runtime", "cudaLaunchKernel", 65, 1, correlation=5),
    _event("cuda_runtime", "cudaLaunchKernel", 90, 1, correlation=6),
    _event("cpu_op", "aten::copy_", 100, 9),
    _event("cuda_runtime", "cudaMemcpyAsync", 104, 1, correlation=7),
    _on_device("softmax", 11, 1),  # named like the candidate's, launched by the library
    _on_device("softmax", 33, 2),
    _on_device("twice(float const*, float*, long)", 43, 3),
    _on_device("triton_poi_fused_add_0", 53, 4),
    _on_device("twice(float const*, float*, long)", 70, 5),
    _on_device("sm90_xmma_gemm", 95, 6),
    _event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 110, 1, tid=7, correlation=7, stream=7),
]


def test_a_kernel_is_whose_it_was_launched_from() -> None:
    found = kineto.launches(TRACE, {"softmax"}, lambda name: name.startswith("twice("))
    assert [(launch.name.split("(")[0], launch.origin) for launch in found] == [
        ("softmax", "torch"),
        ("softmax", "triton"),
        ("twice", "extension"),
        ("triton_poi_fused_add_0", "inductor"),
        ("twice", "extension"),
        ("sm90_xmma_gemm", "torch"),
        ("Memcpy DtoD ", "torch"),
    ]
    assert found[1] == Launch(
        name="softmax",
        origin="triton",
        start_ns=22_000,
        duration_ns=2000,
        stream=7,
        grid=(8, 1, 1),
        block=(64, 1, 1),
        registers=16,
        shared_bytes=0,
    )
    assert found[-1].grid is None


def _shaped(name: str, began: float, duration: float, *shapes: list[int]) -> dict[str, Any]:
    shown: dict[str, Any] = {"Input Dims": shapes, "Concrete Inputs": [""] * len(shapes)}
    return _event("cpu_op", name, began, duration, **shown)


def test_a_launch_belongs_to_the_product_around_it() -> None:
    events = [
        _shaped("aten::linear", 0, 30, [2, 8], [4, 8]),
        _shaped("aten::mm", 1, 20, [2, 8], [8, 4]),
        _event("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=1),
        _event("cuda_runtime", "cudaLaunchKernel", 4, 1, correlation=2),  # its second kernel
        _shaped("aten::copy_", 6, 4, [2, 8]),
        _event("cuda_runtime", "cudaLaunchKernel", 7, 1, correlation=3),
        _shaped("aten::relu", 40, 5, [2, 4]),
        _event("cuda_runtime", "cudaLaunchKernel", 41, 1, correlation=4),
        _event("cuda_runtime", "cudaLaunchKernel", 50, 1, correlation=5),
        *(_on_device(f"k{number}", 60 + 3 * number, number) for number in range(1, 6)),
    ]
    found = kineto.launches(events, set(), lambda _: False)
    assert [launch.product_flops for launch in found] == [128, 128, 0, 0, 0]
    assert found[0].operator == found[1].operator


def test_only_modules_that_the_candidate_wrote_hold_its_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tempfile.tempdir", str(tmp_path)
    )  # torch may be installed below /tmp: 20 s of names
    module = tmp_path / "twice.so"
    module.write_bytes(b"\0_Z5twicePKfPfl\0plain_c\0\x01junk")
    assert {"twice(float const*, float*, long)", "plain_c"} <= kineto._symbols(module)
    built = kineto.BuiltKernels(tmp_path)
    assert not built.holds("twice(float const*, float*, long)")  # it is not loaded


def test_what_is_done_between_the_profiled_calls_is_not_counted() -> None:
    def noted(name: str, ts: float) -> dict[str, Any]:
        return _event("user_annotation", f"assay.call.{name}", ts, 10)

    events = [
        noted("0", 0),
        noted("1", 100),
        _event("cuda_driver", "cuLaunchKernelEx", 5, 1, correlation=1),
        _event(
            "cuda_driver", "cuLaunchKernelEx", 50, 1, correlation=2
        ),  # the shim's: an output is delivered
        _event("cuda_driver", "cuLaunchKernelEx", 105, 1, correlation=3),
        _on_device("mine", 30, 1),
        _on_device("copied", 60, 2),
        _on_device("mine", 106, 3),
    ]
    found = kineto.launches(events, {"mine"}, lambda _: False)
    assert [(each.name, each.call, each.start_ns) for each in found] == [
        ("mine", 0, 0),
        ("mine", 1, 0),
    ]
    with pytest.raises(RuntimeError, match="more calls"):
        kineto.launches([*events, noted("0", 200)], {"mine"}, lambda _: False)


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("nvjet_hsh_64x8_64x16_4x2_h_bz_coopB_TNT", "torch"),
        ("void cutlass::Kernel2<x>(x::Params)", "torch"),
        ("ampere_sgemm_128x64_nn", "torch"),
        ("void at::native::elementwise_kernel<4>()", "torch"),
        ("my_gemm", "unknown"),
        ("sm_softmax", "unknown"),
    ],
)
def test_a_librarys_kernel_launched_around_torch_is_known_by_its_name(
    name: str, origin: str
) -> None:
    (found,) = kineto.launches([_on_device(name, 1, 1)], set(), lambda _: False)
    assert found.origin == origin


SOURCE = '''
import torch, triton
KERNEL = r"""
extern "C" __global__ void __launch_bounds__(256, 2) scale(const float* x, float* y, int n) { }
template <typename T> __global__ __launch_bounds__((32 * 4)) static void
row_sum(const T* x);
"""
@triton.autotune(configs=[], key=[])
@triton.jit
def _tt_fp8_gemm(a_ptr):
    pass

def plain(x):
    pass
'''


def test_kernels_that_a_source_compiles_as_it_runs_are_its_own() -> None:
    assert kineto.defined(SOURCE) == {"scale", "row_sum", "_tt_fp8_gemm"}


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("scale", "extension"),
        ("void (anonymous namespace)::row_sum<float>(float const*)", "extension"),
        ("_tt_fp8_gemm", "extension"),
        ("plain", "unknown"),
        ("sm90_xmma_gemm_f32", "torch"),
    ],
)
def test_where_a_kernel_comes_from_that_no_operator_launched(
    tmp_path: Path, name: str, origin: str
) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(SOURCE + "\n# __global__ void sm90_xmma_gemm_f32(float* x) {\n")
    written = kineto.SourceKernels(path).holds
    [found] = kineto.launches([_on_device(name, 1, 1)], set(), lambda _: False, written)
    assert found.origin == origin


@pytest.mark.parametrize(
    ("written", "name"),
    [("Kernel", "kernel"), ("float", "f"), ("row_sum", "row_sum"), ("Kernel", "Kernel")],
)
def test_a_kernel_has_the_name_that_it_was_given(written: str, name: str) -> None:
    """Kineto writes `kernel` with a capital letter, and demangles names of one letter."""
    [found] = kineto.launches([_on_device(written, 1, 1)], {name}, lambda _: False)
    assert (found.name, found.origin) == (name, "triton")


def test_a_kernel_of_the_source_may_be_named_kernel(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text('SOURCE = """extern "C" __global__ void kernel(float* x) { x[0] = 1; }"""\n')
    in_source = kineto.SourceKernels(path).holds
    [found] = kineto.launches([_on_device("Kernel", 1, 1)], set(), lambda _: False, in_source)
    assert (found.name, found.origin) == ("kernel", "extension")
