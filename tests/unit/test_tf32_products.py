"""Candidates may have products in TF32 where PyTorch lets the library do so, whether or not the
reference's own are computed so.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from workers.protocol import precision_flags
from workers.referee.comparison import correctness
from workers.shims.problem import reference_problem
from workers.shims.problem.answers import tf32_products
from workers.shims.problem.observers.flops import FlopCounter
from workers.shims.problem.reference_problem import Problem

CONVOLUTIONS = {"convolution"}


class Model(nn.Module):
    """A convolution, the first of its numbers, and their order."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 16, 3)

    def forward(self, x: torch.Tensor) -> Any:
        answer = self.conv(x)
        return answer, {"untouched": x + 1, "order": answer.flatten().argsort(), "number": 2.0}


def _call(dtype: torch.dtype = torch.float32) -> Callable[[], Any]:
    model = Model().to(dtype)
    x = torch.randn(2, 3, 16, 16, dtype=dtype)

    def call() -> Any:
        with torch.no_grad():
            return model(x)

    return call


def test_error_of_each_output() -> None:
    convolved, *others = tf32_products.error(_call(), CONVOLUTIONS)
    assert 1e-4 < convolved[0] < 6e-4
    assert convolved[1] > convolved[0]
    assert others == [(0.0, 0.0)] * 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_not_rounded(dtype: torch.dtype) -> None:
    assert set(tf32_products.error(_call(dtype), CONVOLUTIONS)) == {(0.0, 0.0)}


def test_products_are_not_rounded() -> None:
    linear, x = nn.Linear(64, 8), torch.randn(4, 64)
    assert tf32_products.error(lambda: linear(x).detach(), CONVOLUTIONS) == ((0.0, 0.0),)
    assert tf32_products.error(lambda: linear(x).detach(), {"matmul"})[0][0] > 1e-4


@pytest.mark.parametrize(
    ("rounded", "right"),
    [
        (tf32_products._rounded, True),
        (lambda x: x.half().float(), True),
        (lambda x: x.bfloat16().float(), False),
        (lambda x: x * 1.01, False),
    ],
)
def test_what_is_right_beside_a_reference_in_fp32(
    rounded: Callable[[torch.Tensor], torch.Tensor], right: bool
) -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(2, 3, 32, 32), torch.randn(16, 3, 3, 3)
    exact, own = functional.conv2d(x.double(), weight.double()), functional.conv2d(x, weight)
    got = functional.conv2d(rounded(x), rounded(weight))
    spread = tf32_products.error(lambda: functional.conv2d(x, weight), CONVOLUTIONS)
    mine, true, theirs = (each.reshape(1, -1) for each in (got, exact, own))
    for rule, expected in (
        (correctness.Rule(spread=spread), right),
        (correctness.DEFAULT_RULE, False),
    ):
        assert correctness.compare(mine, true, theirs, mine[0], 0, tuple(got.shape), rule).ok == [
            expected
        ]


def test_special_values_stay() -> None:
    x = torch.tensor([float("inf"), float("-inf"), 0.0, -0.0, 1.0, torch.finfo(torch.float32).tiny])
    assert torch.equal(tf32_products._rounded(x), x)
    assert tf32_products._rounded(torch.tensor(float("nan"))).isnan()
    assert float(tf32_products._rounded(torch.tensor(1 + 2**-11 + 2**-20))) == 1 + 2**-10


def test_convolutions_are_found_wherever_they_are_called() -> None:
    product = torch.randn(4, 4)
    for place, run in (("convolution", _call()), ("matmul", lambda: product @ product)):
        with FlopCounter() as counter:
            run()
        assert counter.places - {""} == {place}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_only_where_the_problem_allows_it(
    device: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_flags, "chosen", lambda: {"convolution": precision})
    problem = Problem(tmp_path, torch.device(device))
    model, x = nn.Conv2d(3, 4, 3), torch.randn(8, 3, 9, 9)
    for rows in (None, 2):
        found = problem._error_in_tf32(model, lambda: [x], rows, {"convolution"})
        assert bool(found) is (precision == "tf32")


def test_without_room_nothing_is_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(reference_problem, "call", full)
    monkeypatch.setattr(precision_flags, "chosen", lambda: {"convolution": "tf32"})
    problem = Problem(tmp_path, torch.device("cuda"))
    assert problem._error_in_tf32(None, list, None, {"convolution"}) == ()
    problem._sole = False
    with pytest.raises(torch.OutOfMemoryError):
        problem._error_in_tf32(None, list, None, {"convolution"})


def test_the_larger_error_of_each_output_counts() -> None:
    one, other = ((1.0, 2.0), (0.0, 0.5)), ((0.5, 3.0), (1.0, 0.0))
    assert tf32_products.widest(one, other) == ((1.0, 3.0), (1.0, 0.5))
    assert tf32_products.widest((), other) == other
    assert tf32_products.widest(one, ()) == one


def test_a_loss_in_which_cut_off_bits_add_up() -> None:
    torch.manual_seed(2)
    x, weight = torch.randn(256, 128), torch.randn(64, 128) * 0.2
    labels = torch.randint(0, 64, (256,))

    def loss(narrow: Callable[[torch.Tensor], torch.Tensor] = lambda each: each) -> torch.Tensor:
        return functional.cross_entropy(narrow(x) @ narrow(weight).T, labels)

    exact = functional.cross_entropy(x.double() @ weight.double().T, labels)
    spread = tf32_products.error(loss, {"matmul"})
    got = loss(tf32_products._cut)
    for rule, right in ((correctness.Rule(spread=spread), True), (correctness.DEFAULT_RULE, False)):
        mine, true, own = (each.reshape(1, 1) for each in (got, exact, loss()))
        assert correctness.compare(mine, true, own, mine[0], 0, (), rule).ok == [right]
