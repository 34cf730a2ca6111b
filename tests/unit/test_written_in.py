"""The language that a candidate is written in, and the one that a prompt asks for."""

from __future__ import annotations

import pytest

from app.domain.dataset import code_extraction
from app.domain.source import language

CUDA = (
    'import torch\nfrom torch.utils.cpp_extension import load_inline\nsource = """__global__ void'
    ' k() {}"""\n'
)
PLAIN = b"import torch\n# not import triton, no __global__\nclass ModelNew(torch.nn.Module): ...\n"


@pytest.mark.parametrize(
    ("source", "written", "backend"),
    [
        ("import torch\nimport triton\nimport triton.language as tl\n", "triton", "triton"),
        ("import torch, triton, triton.language as tl\n", "triton", "triton"),
        ("import torch as t, numpy as np, triton\n", "triton", "triton"),
        ("import torch; import triton\n", "triton", "triton"),
        ("import triton_free\nimport my.triton_like, torch\n", "torch", "torch"),
        ("import torch, cutlass.cute as cute\n", "cute", "cuda"),
        (CUDA, "cuda", "cuda"),
        ('import torch\nsource = r"""\nextern "C" __global__ void k() {}\n"""\n', "cuda", "cuda"),
        ("import torch\nk = torch.cuda._compile_kernel(text, 'k')\n", "cuda", "cuda"),
        ("import cupy as cp\nk = cp.RawKernel(text, 'k')\n", "cupy", "cuda"),
        ("import tilelang\nimport tilelang.language as T\n", "tilelang", "cuda"),
        ("import cutlass\nimport cutlass.cute as cute\n", "cute", "cuda"),
        ("import helion\nimport helion.language as hl\n", "helion", "triton"),
        ("from numba import cuda\n@cuda.jit\ndef k(): ...\n", "numba", "cuda"),
        (PLAIN.decode(), "torch", "torch"),
        ('"""Without __global__ kernels."""\nimport torch\n', "torch", "torch"),
        ("import torch  # load_inline is slower\n", "torch", "torch"),
        (
            "import torch\nclass ModelNew:\n    '''Was\nimport triton\n'''\n",
            "torch",
            "torch",
        ),
        ('"""Doc."""\ncode = """\n__global__ void k() {}\n"""\n', "cuda", "cuda"),
        ('code = """\nx:\n"""\nimport triton\n"""\n"""\n', "triton", "triton"),
    ],
)
def test_what_a_candidate_is_written_in(source: str, written: str, backend: str) -> None:
    assert (language.written(source.encode()), language.backend_for(source.encode())) == (
        written,
        backend,
    )


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("Write a custom Triton kernel for softmax", {"triton"}),
        ("You write custom CUDA kernels to replace the pytorch operators.", {"cuda"}),
        ("Write it in TileLang.", {"tilelang"}),
        ("Write it in the CuTe DSL.", {"cute"}),
        ("Optimise this with kernels of your own.", {"kernels"}),
        ("Make it faster.\n```python\nimport triton\nx.cuda()  # CUDA kernel\n```\n", set()),
        ("The model runs on a CUDA device. Make it faster.", set()),
    ],
)
def test_what_a_prompt_asks_for(prompt: str, asked: set[str]) -> None:
    assert language.asked(prompt) == asked


def test_plain_pytorch_is_judged_by_what_was_asked() -> None:
    assert language.backend_for(PLAIN, ["Write a custom Triton kernel"]) == "triton"
    assert language.backend_for(PLAIN, ["Make it faster"]) == "torch"
    assert language.backend_for(CUDA.encode(), ["Write a custom Triton kernel"]) == "cuda"
    assert language.backend_for(PLAIN, ["Write a Triton or a CUDA kernel"]) == "torch"


def test_an_answer_in_another_language_is_no_example_of_its_prompt() -> None:
    source = PLAIN.decode() + "    x = 1\n"
    answer = f"```python\n{source}```\n"
    assert code_extraction.check(answer, source, "Model") == "ok"
    assert code_extraction.check(answer, source, "Model", prompt="Make it faster.") == "ok"
    assert (
        code_extraction.check(answer, source, "Model", prompt="Write a Triton kernel.")
        == "other_language"
    )
    assert (
        code_extraction.check(answer, source, "Model", prompt="Write a custom kernel.")
        == "other_language"
    )


@pytest.mark.parametrize("text", ["\n" * 100_000, "cupy " * 100_000, " " * 400_000])
def test_odd_texts_are_read_at_once(text: str) -> None:
    # a second reading for each line, sign or blank would take minutes
    assert language.written(text.encode()) == "torch"
    assert language.asked("`" * 100_000 + text) == (
        frozenset({"cupy"}) if "cupy" in text else frozenset()
    )
