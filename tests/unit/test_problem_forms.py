"""Forms of problems: what `get_inputs` and `forward` may give, and what is refused
with expected and found.
"""

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from workers.protocol import layout
from workers.shims import call_errors
from workers.shims.problem.reference_problem import Problem

CPU = torch.device("cpu")
SEED = b"16 bytes of seed"
SOURCE = """
import torch
from dataclasses import dataclass
from typing import NamedTuple


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclass
class Both:
    left: torch.Tensor


class Model(torch.nn.Module):
    def forward(self, {parameters}):
        {forward}


def get_inputs():
    return {inputs}
"""


class Sides(NamedTuple):
    left: torch.Tensor
    number: int


class Kind(enum.IntEnum):
    THREE = 3


@dataclass
class Settings:
    width: int


def _described(tmp_path: Path, parameters: str, forward: str, inputs: str) -> Any:
    problem = Problem(tmp_path, CPU)
    source = SOURCE.format(parameters=parameters, forward=forward, inputs=inputs)
    assert problem.load(source.encode(), "Model", by_cases=False) == ""
    return problem.session(0, SEED, sole=True)


def _carried(value: Any) -> Any:
    """The value as a candidate's process receives it."""
    node = layout.check(json.loads(json.dumps(layout.describe(value))))
    return layout.rebuild(node, (torch.as_tensor(each) for each in layout.values(value)))


def test_a_named_tuple_keeps_its_names() -> None:
    (back,) = _carried([Sides(torch.ones(3), 4)])
    assert (type(back).__name__, back._fields, back.number) == ("Sides", ("left", "number"), 4)
    assert torch.equal(back.left, torch.ones(3))
    (moved,) = layout.placed([Sides(torch.ones(3), 4)], CPU)
    assert isinstance(moved, Sides)


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": ["a"]},
        {"fields": ["a", "a"]},
        {"fields": ["a", "class"]},
        {"fields": ["a", "_b"]},
        {"fields": ["a", "b c"]},
        {"fields": "ab"},
        {"name": "a=1); raise SystemExit"},
        {"kind": "list"},
    ],
)
def test_names_that_are_none_are_refused(changes: dict[str, Any]) -> None:
    node = layout.describe(Sides(torch.ones(3), 4))
    assert layout.check(node) == node
    with pytest.raises(layout.UnsupportedError, match="not a named tuple's spec"):
        layout.check(node | changes)


def test_a_named_number_stays_whole() -> None:
    assert [type(each) for each in _carried([Kind.THREE, True, 2.5])] == [int, bool, float]


@pytest.mark.parametrize(
    ("value", "came"),
    [
        (slice(3), "slice"),
        (1j, "complex"),
        (Settings(3), "Settings"),
        ({1: 2}, "a dict with other keys than text"),
    ],
)
def test_a_value_that_cannot_be_carried_is_named_beside_what_can(value: Any, came: str) -> None:
    with pytest.raises(
        layout.UnsupportedError, match=rf"{came}.*: expected tensors, numbers, text"
    ):
        layout.describe([value])


@pytest.mark.parametrize(
    ("parameters", "forward", "inputs"),
    [
        ("pair", "return pair.left @ pair.right", "[Pair(torch.randn(8, 8), torch.randn(8, 8))]"),
        ("x, y=2.0, *, z=1.0", "return x * y - z", '{"y": 0.5, "x": torch.randn(8)}'),
        ("x", "return torch.max(x, dim=-1)", "[torch.randn(8, 8)]"),
        ("x", "return Pair(x + 1, x.exp())", "[torch.randn(8, 8)]"),
    ],
)
def test_forms_that_are_described(
    parameters: str, forward: str, inputs: str, tmp_path: Path
) -> None:
    session = _described(tmp_path, parameters, forward, inputs)
    assert session.spec.truth == "fp64"
    assert not session.spec.output_constant


@pytest.mark.parametrize(
    ("forward", "inputs", "truth"),
    [
        ("return x * {torch.float32: 2.0}[x.dtype]", "[torch.randn(8)]", "fp64, casts lifted"),
        ("return x * {4: 2.0}[x.itemsize]", "[torch.randn(8)]", "fp32, casts lifted, TF32 off"),
    ],
)
def test_code_that_raises_for_wide_types_has_another_truth(
    forward: str, inputs: str, truth: str, tmp_path: Path
) -> None:
    assert _described(tmp_path, "x", forward, inputs).spec.truth == truth


def test_inputs_that_belong_together_are_not_mixed(tmp_path: Path) -> None:
    forward = "return x * {True: 2.0}[bool((x == y).all())] + torch.zeros(8)"
    session = _described(tmp_path, "x, y", forward, "[torch.randn(8)] * 2")
    assert session.spec.insensitive_to == ()


@pytest.mark.parametrize(
    ("parameters", "forward", "inputs", "message"),
    [
        ("x", "return x", "torch.randn(8)", "get_inputs: expected a list or a dict, got Tensor"),
        (
            "x",
            "return x",
            '{"y": torch.randn(8)}',
            "get_inputs: missing a required argument: 'x': the dict has y",
        ),
        (
            "x, *, y",
            "return x * y",
            '{"x": torch.randn(8), "y": 2.0}',
            "expected no keyword-only arguments, got y",
        ),
        (
            "x",
            "return Both(x)",
            "[torch.randn(8)]",
            "the reference's outputs: a value of type Both cannot be",
        ),
        (
            "x",
            "return x.to_sparse()",
            "[torch.randn(8, 8)]",
            "outputs: tensors of .*sparse_coo.*expected strided",
        ),
        (
            "x",
            "return x",
            "[torch.ones(8, dtype=torch.uint16)]",
            "of torch.uint16, .*: expected .* float64, .* float8",
        ),
        (
            "x",
            "x.normal_()",
            "[torch.randn(8)]",
            "changes its inputs, but .* not alike .*: expected it to return what it changes",
        ),
        ("x", "return None", "[torch.randn(8)]", "no answer that could be wrong$"),
        (
            "x",
            "return x[x > 0]",
            "[torch.randn(512)]",
            "outputs of constant shape, got .*2.*and.*2",
        ),
        (
            "x",
            "return x, [x] * int(x.sum())",
            "[torch.randint(2, (512,))]",
            "outputs of constant shape, got",
        ),
        (
            "xs",
            "xs.append(1.0); return xs[0]",
            "[[torch.randn(8)]]",
            "among its inputs: 1 values before, 2 after",
        ),
    ],
)
def test_forms_that_are_refused(
    parameters: str, forward: str, inputs: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        _described(tmp_path, parameters, forward, inputs)


def _differentiates() -> None:
    torch.ones(3).sum().backward()


def _multiplies() -> None:
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


@pytest.mark.parametrize(("work", "hinted"), [(_differentiates, True), (_multiplies, False)])
def test_a_model_that_differentiates_learns_that_gradients_are_off(
    work: Callable[[], None], hinted: bool
) -> None:
    with pytest.raises(RuntimeError) as caught:
        work()
    assert (
        "a call runs under torch.no_grad()" in call_errors.explain(caught.value).partition("\n")[0]
    ) is hinted
