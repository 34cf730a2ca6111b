"""Advice on sources: where, and that hostile text is survived."""

from __future__ import annotations

import pytest

from app.detectors import static_hints
from tests import zoo


def _whys(source: str) -> list[str]:
    return [hint.why for hint in static_hints.hints(source.encode())]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import sys\nf = sys._getframe(1)", "reads callers' frames"),
        ("exec('1')", "runs text as code"),
        ("import torch\ntorch.allclose = lambda *a, **k: True", "patches a library"),
        ("import time\nsetattr(time, 'perf_' + 'counter', 1)", "patches a library"),
        ("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True", "changes global settings"),
        ("class Yes(torch.Tensor): pass", "defines a tensor subclass"),
        ("class ModelNew(Model): pass", "inherits from the reference"),
        ("def f(x):\n    return cache[x.data_ptr()]", "keys something by a tensor's identity"),
        (
            (
                "def f(x):\n    try:\n        return k(x)\n    except Exception:\n        return"
                " torch.relu(x)"
            ),
            "falls back to something else when an error occurs",
        ),
        ("SOURCE = 'auto y = at::matmul(a, b);'", "names at::matmul in native code"),
        ("SOURCE = 'cublasSgemm(h);'", "names cublasSgemm in native code"),
        ("import ctypes", "calls native libraries"),
        ("from threading import Thread", "starts threads"),
        ("g = torch.compile(f)", "has torch.compile write the kernels"),
    ],
)
def test_what_a_reader_should_look_at(source: str, why: str) -> None:
    assert why in _whys(source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        '"""Unlike at::matmul, and without eval(x)."""\n# sys._getframe(0)\nx = 1',
        "try:\n    import triton\nexcept ImportError:\n    triton = None",
        "out = torch.empty_like(x)\nkernel[grid](x, out, x.numel(), BLOCK=1024)",
        (
            "SOURCE = 'at::Tensor out = at::empty({n}); kernel<<<g, b, 0,"
            " at::cuda::getCurrentCUDAStream()>>>(p);'"
        ),
    ],
)
def test_ordinary_sources_get_no_advice(source: str) -> None:
    assert _whys(source) == []


def test_a_hint_says_where() -> None:
    hint = static_hints.hints(b"import torch\n\nx = torch.load('a')\n")[0]
    assert (hint.line, hint.column, hint.end_line, hint.end_column) == (3, 4, 3, 19)
    assert hint.text == "x = torch.load('a')"


@pytest.mark.parametrize(
    "source",
    [
        b"\xff\xfe",
        b"x = '\x00'",
        b"class",
        b"(" * 100_000,
        b"-" * 200_000 + b"1",
        b"1" + b"+1" * 100_000,
        b"a" + b".b" * 100_000,
        b"x" * (static_hints.MAX_BYTES + 1),
        b"x = 0\f\n\fy = '\xe2\x80\xa8'",
    ],
    ids=lambda source: repr(source[:12]),
)
def test_hostile_text_is_survived(source: bytes) -> None:
    assert static_hints.hints(source) == []


def test_every_zoo_file_can_be_looked_at() -> None:
    for case in zoo.cases():
        static_hints.hints(case.candidate)
