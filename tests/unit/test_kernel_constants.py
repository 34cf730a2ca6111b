"""Constants of an interpreted launch, and the compiler's rows for kernels that have them."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import triton.language as tl

from workers.backends.support import kernel_constants, kernel_digest
from workers.protocol.control_channel import COMPILED_ROW
from workers.shims.builder import Shim

SM_90 = 90
SOURCE = """
import triton
import triton.language as tl

@triton.jit
def twice(x):
    return x + x

@triton.jit
def kernel(x_ptr, n, step, FORM: tl.constexpr, BLOCK: tl.constexpr, OF: tl.constexpr):
    tl.static_assert(step == 1)
    index = tl.program_id(0) * BLOCK[0] + tl.arange(0, BLOCK[0]) * step
    x = OF(tl.load(x_ptr + index, mask=index < n).to(FORM))
    tl.store(x_ptr + index, tl.math.exp2(x.to(tl.float32)), mask=index < n)
"""


@pytest.fixture(name="shim")
def _shim(tmp_path: Path) -> Shim:
    """The builder's shim, with SOURCE loaded."""
    path = tmp_path / "candidate.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shim = Shim(tmp_path)
    shim._module = module
    return shim


def _launch(shim: Shim, **constants: Any) -> dict[str, Any]:
    """A launch of SOURCE's kernel as the candidate's process writes it down."""
    values = {
        "step": 1,
        "FORM": tl.float16,
        "BLOCK": (128, 1),
        "OF": shim._module.twice,
        **constants,
    }
    return {
        "name": "kernel",
        "signature": {"x_ptr": "*fp32", "n": "i32", **dict.fromkeys(values, "constexpr")},
        "constants": {name: kernel_constants.written(value) for name, value in values.items()},
        "options": {},
        "digest": kernel_digest.digest(shim._module.kernel),
    }


def _outcome(shim: Shim, launch: dict[str, Any]) -> tuple[str, int]:
    """Message and outcome of the compiler's row."""
    row = COMPILED_ROW.unpack(shim._compile(launch, SM_90))
    return row[2].rstrip(b"\0").decode(), row[3]


def test_element_types_tuples_and_functions_are_given_to_the_compiler(shim: Shim) -> None:
    assert _outcome(shim, _launch(shim)) == ("", 1)


@pytest.mark.parametrize("value", [object(), {"function": 3}])
def test_a_constant_without_a_form_is_not_compiled(shim: Shim, value: object) -> None:
    message, outcome = _outcome(shim, _launch(shim, FORM=value))
    assert message.startswith("UnknownConstantError")
    assert outcome == 2


def test_a_function_with_another_body_is_not_given_in_its_place(shim: Shim) -> None:
    launch = _launch(shim)
    launch["constants"]["OF"]["digest"] = "0" * 32
    assert _outcome(shim, launch)[0].startswith("UnknownConstantError")


def test_a_constant_that_the_compiler_refuses_is_the_kernels_fault(shim: Shim) -> None:
    message, outcome = _outcome(shim, _launch(shim, BLOCK=(100, 1)))
    assert outcome == 0
    assert "power of 2" in message
