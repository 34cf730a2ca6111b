"""Descriptions of a kernel that must agree between the interpreter and the compiler."""

import math
from functools import partial
from types import FunctionType
from typing import Any

import pytest
import triton.language
from triton.language import constexpr
from triton.language.extra.cuda import libdevice
from triton.runtime.jit import JITFunction

from workers.backends.support import kernel_digest

SOURCE = """
def helper(x):
    return x + SHIFT

def kernel(x, n):
    return helper(x) * FACTOR + n

class Jitted:
    def __init__(self, fn):
        self.fn = fn
"""


def _kernel(source: str = SOURCE, **around: Any) -> FunctionType:
    names: dict[str, Any] = {"__name__": "candidate", "SHIFT": 1, "FACTOR": constexpr(2), **around}
    exec(source, names)
    return names["kernel"]


def test_the_same_source_has_the_same_digest() -> None:
    assert kernel_digest.digest(_kernel()) == kernel_digest.digest(_kernel())
    jitted = _kernel().__globals__["Jitted"]
    assert kernel_digest.digest(jitted(jitted(_kernel()))) == kernel_digest.digest(_kernel())
    assert kernel_digest.digest(_kernel("\n\n\n" + SOURCE)) == kernel_digest.digest(
        _kernel()
    )  # its place does not count


@pytest.mark.parametrize(
    ("source", "around"),
    [
        (SOURCE.replace("+ n", "- n"), {}),
        (SOURCE.replace("x + SHIFT", "x - SHIFT"), {}),
        (SOURCE, {"SHIFT": 2}),
        (SOURCE, {"FACTOR": constexpr(3)}),
        (SOURCE.replace("+ n", "+ 7"), {}),
    ],
)
def test_another_body_helper_or_constant_has_another(source: str, around: dict[str, Any]) -> None:
    assert kernel_digest.digest(_kernel(source, **around)) != kernel_digest.digest(_kernel())


def test_helpers_may_call_each_other() -> None:
    source = SOURCE.replace("return x + SHIFT", "return kernel(x, SHIFT) if x else x")
    assert kernel_digest.digest(_kernel(source)) == kernel_digest.digest(_kernel(source))


def test_what_a_factory_closes_over_counts() -> None:
    def made(scale: int) -> Any:
        def kernel(x: int) -> int:
            return x * scale

        return kernel

    assert kernel_digest.digest(made(1)) == kernel_digest.digest(made(1))
    assert kernel_digest.digest(made(1)) != kernel_digest.digest(made(2))


def test_modules_that_the_interpreter_adds_do_not_count() -> None:
    source = SOURCE.replace("+ n", "+ n.math.exp2(x)")
    assert kernel_digest.digest(_kernel(source, math=math)) == kernel_digest.digest(_kernel(source))
    source = SOURCE.replace("+ n", "+ math.exp2(x)")
    assert kernel_digest.digest(_kernel(source, math=math)) != kernel_digest.digest(
        _kernel(source, math=2)
    )


def test_a_function_of_libdevice_is_the_same_inside_the_interpreter() -> None:
    source = SOURCE.replace("+ n", "+ rsqrt(n)")
    inside = partial(libdevice.rsqrt, _semantic=None)
    assert kernel_digest.digest(_kernel(source, rsqrt=inside)) == kernel_digest.digest(
        _kernel(source, rsqrt=libdevice.rsqrt)
    )
    assert kernel_digest.digest(
        _kernel(source, rsqrt=partial(_kernel(), 1))
    ) != kernel_digest.digest(_kernel(source, rsqrt=_kernel()))


def test_element_types_are_told_apart() -> None:
    one, other = (
        kernel_digest.digest(_kernel(FACTOR=kind))
        for kind in (triton.language.float32, triton.language.float16)
    )
    assert one != other


def test_a_kernel_whose_compiler_is_given_another_text_is_another() -> None:
    plain, changed = JITFunction(_scaled), JITFunction(_scaled)
    changed._unsafe_update_src(changed.src.replace("x", "2 * x"))
    assert kernel_digest.digest(plain) == kernel_digest.digest(_scaled)
    assert kernel_digest.digest(changed) != kernel_digest.digest(plain)


def _scaled(x):
    return x
