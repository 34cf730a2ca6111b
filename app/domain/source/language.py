"""IMPORT, EXPORT: the language that a candidate is written in, and the one that a prompt asks for.

Both are read from text, for data and never for trust: whether a candidate's own kernels did the
work is for the detectors.  Comments and docstrings of a candidate are not read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

TORCH = "torch"
"""No kernel of its own: operators of the library."""
KERNELS = "kernels"
"""A prompt that asks for kernels and names no language."""

_COMMENT = re.compile(rb"(?<![^ \t\n])#[^\n]*")
"""From a `#` at the beginning of a line or behind a blank to the line's end, in CUDA sources, too
(`#include`): no sign of a language stands there alone.
"""
_DOCSTRING = re.compile(
    rb"(?P<before>\A\s*|^[ \t]*(?:async[ \t]|def\b|class\b|\))[^\n]*:[ \t\r]*\n\s*)"
    rb"[rRuU]?(?P<quotes>\"{3}|'{3})[\s\S]*?(?P=quotes)",
    re.MULTILINE,
)
"""A text at the beginning of a module, or behind the head of a function or class."""


def _imported(modules: bytes) -> bytes:
    """Sign of an import of one of these modules, alone, in a list, or behind a semicolon."""
    listed = rb"(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*"
    return rb"(?:^|;)[ \t]*(?:from[ \t]+|import[ \t]+" + listed + rb")(?:" + modules + rb")\b"


_WRITTEN: tuple[tuple[str, tuple[re.Pattern[bytes], ...]], ...] = tuple(
    (name, tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns))
    for name, *patterns in (
        ("helion", _imported(rb"helion")),
        ("tilelang", _imported(rb"tilelang")),
        ("cute", _imported(rb"cutlass")),
        ("triton", _imported(rb"triton")),
        ("cupy", rb"\bcupy\b", rb"\b(RawKernel|RawModule|ElementwiseKernel|ReductionKernel)\b"),
        ("numba", rb"\bnumba\b", rb"\bcuda\.jit\b"),
        ("thunderkittens", rb"\b(kittens\.cuh|thunderkittens)\b"),
        (
            "cuda",
            (
                rb"cpp_extension|\bload_inline\b|__global__|\b_compile_kernel\b"
                rb"|^[ \t]*from cuda\b|\bpycuda\b"
            ),
        ),
    )
)
"""Language → its signs in a source, all of which it has; the surest language first.  No sign takes
more time than the source is long: candidates of any text are read.
"""

BACKENDS = {"triton": "triton", "helion": "triton", TORCH: "torch"}
"""Language → backend that evaluates it; every other language makes CUDA kernels (`cuda`)."""

_NAMES = {
    "triton": r"\btriton\b",
    "helion": r"\bhelion\b",
    "tilelang": r"\btile-?lang\b",
    "cute": r"\bcute(?:[ -]?dsl)?\b|\bcutlass\b",
    "cupy": r"\bcupy\b",
    "numba": r"\bnumba\b",
    "thunderkittens": r"\bthunder ?kittens\b",
    "cuda": (
        r"\bcuda["
        r" -]?(?:c\b|c\+\+|kernels?|code|sources?|operators?|ops|implementation|extensions?"
        r"|programming)"
        r"|\b(?:in|raw|inline|custom|pure) cuda\b|\bload_inline\b"
    ),
}
_ASKED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _NAMES.items()}
_KERNELS = re.compile(
    r"\b(?:custom|gpu|own|hand-?written|optimi[sz]ed) kernels?\b|\bkernels? of (?:its|your|their)"
    r" own\b",
    re.IGNORECASE,
)
_FENCED = re.compile(r"^(`{3,}+|~{3,}+)[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def written(source: bytes) -> str:
    """The language of a candidate: that of its kernels, `torch` where it brings none."""
    code = _DOCSTRING.sub(rb"\g<before>", _COMMENT.sub(b"", source))
    return next(
        (name for name, signs in _WRITTEN if all(sign.search(code) for sign in signs)), TORCH
    )


@functools.lru_cache(maxsize=4_096)
def asked(prompt: str) -> frozenset[str]:
    """The languages that a prompt names outside its code blocks; `kernels` where it asks for
    kernels of any language; empty where it asks for nothing of the sort.
    """
    prose = _FENCED.sub("", prompt)
    found = frozenset(name for name, pattern in _ASKED.items() if pattern.search(prose))
    return found or (frozenset({KERNELS}) if _KERNELS.search(prose) else frozenset())


def answers(source: bytes, wanted: frozenset[str]) -> bool:
    """True if a candidate is written in a requested language."""
    if not wanted:
        return True
    own = written(source)
    return own != TORCH if wanted == {KERNELS} else own in wanted


def backend_for(source: bytes, prompts: Iterable[str] = ()) -> str:
    """The backend to judge a candidate by: that of its language, but for plain PyTorch
    under a prompt that asks for a language that of the prompt.  Copying the reference is no
    answer to "write a Triton kernel".
    """
    own = written(source)
    if own != TORCH:
        return BACKENDS.get(own, "cuda")
    wanted = asked("\n".join(prompts)) - {KERNELS}
    backends = {BACKENDS.get(name, "cuda") for name in wanted}
    return backends.pop() if len(backends) == 1 else TORCH
