"""Problems with floats of one byte, for which torch has few operators on a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from workers.protocol import input_variants, layout, roundoff
from workers.protocol.input_variants import Variant
from workers.referee.comparison import (
    correctness,
    far_off,
    largest_excess,
    nearness,
    null_answers,
    peer_rules,
    stale_answers,
    unwritten,
    usual_answers,
    wrong_slices,
)
from workers.shims.problem.answers import pieces, rounding
from workers.shims.problem.inputs import input_domain, reaching_inputs, varied_inputs

ON_A_GPU = frozenset(
    {
        "_local_scalar_dense",
        "_to_copy",
        "cat",
        "clone",
        "detach",
        "eq",
        "expand",
        "new_empty",
        "new_zeros",
        "repeat",
        "select",
        "set_",
        "slice",
        "split",
        "view",
        "zeros_like",
    }
)
"""Operators that torch 2.11 has for float8_e4m3fn and float8_e5m2 on a GPU, as far
as they are used here.
"""

CALLS, SHAPE = 4, (8, 64)

OF_SIGNS = (Variant.SIGN_MIXED, Variant.SPIKED)
"""Variants that change signs, or nothing where there are none."""


class OnGpu(TorchDispatchMode):
    """Dispatch mode that refuses the operators on floats of one byte that torch lacks on a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        values, _ = tree_flatten((args, kwargs, found))
        narrow = [
            x
            for x in values
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.itemsize == 1
        ]
        if narrow and name not in ON_A_GPU:
            raise NotImplementedError(f"{name} on {narrow[0].dtype}")
        return found


@pytest.fixture(params=[torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu], ids=str)
def own(request: pytest.FixtureRequest) -> torch.Tensor:
    """Outputs of some calls, in a type of one byte."""
    torch.manual_seed(0)
    return torch.randn(CALLS, SHAPE[0] * SHAPE[1]).to(request.param)


def test_the_mode_refuses_what_a_gpu_lacks(own: torch.Tensor) -> None:
    for refused in (
        lambda: own.roll(1, dims=0),
        lambda: torch.isfinite(own),
        lambda: own.nan_to_num(),
    ):
        with OnGpu(), pytest.raises(NotImplementedError):
            refused()


def test_null_answers(own: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    same = own[:1].repeat(CALLS, 1)
    for together in (null_answers.TOGETHER_BYTES, 0):
        monkeypatch.setattr(null_answers, "TOGETHER_BYTES", together)
        with OnGpu():
            assert null_answers.accepted([own.double()], [own]) == ()
            assert null_answers.accepted([same.double()], [same]) == ("another_call",)


COMPARISONS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "check": lambda own, got, true: _compared(own, got, true).check(0),
    "slices": lambda own, _, true: _compared(own, own, true).by_slices(2, true, own),
    "located": lambda own, got, true: _compared(own, got, true).located(range(CALLS), true),
    "far off": lambda own, got, true: far_off.calls_of(_compared(own, got, true), true),
    "reviewed": (
        lambda own, got, true: _compared(own, got, true).reviewed(
            0,
            true[:1].clone(),
            own[:1],
            correctness.SecondLook(l2=0.0, largest=0.0, ties=0, close=0),
        )
    ),
    "tolerance": lambda own, got, true: correctness.compare(
        got, true, own, own[0], 0, SHAPE, correctness.Rule(tolerance=(1e-2, 1e-2))
    ),
    "stale": lambda own, got, true: stale_answers.earlier_call(
        got[0], _compared(own, got, true).check(0), [(0, true[1]), (1, true[0])]
    ),
    "peers": lambda own, got, _: peer_rules.agree(got, own, (1e-2,)),
    "near": lambda own, got, _: list(nearness.distances(got, own)),
    "unwritten": lambda own, got, _: unwritten.untouched(got[0], own[0]),
    "slice": lambda own, got, true: wrong_slices.first(got[0], true[0], own[0], SHAPE),
    "excess": lambda own, got, true: largest_excess.element(got[0], true[0], SHAPE, None),
    "sizes": lambda own, _, true: usual_answers.objections(
        own, true, usual_answers.answer_size(own[:1], true[:1])
    ),
    "usual": lambda own, _, true: usual_answers.looks_usual(
        own, usual_answers.answer_size(own[:1], true[:1])
    ),
    "same": lambda own, got, _: layout.same(own, got),
    "errors": lambda own, got, true: roundoff.errors(got, true),
    "spread": lambda own, got, _: rounding.differs_by_rounding([own], [got]),
}


def _compared(
    own: torch.Tensor, got: torch.Tensor, true: torch.Tensor
) -> correctness.ComparedOutput:
    return correctness.compare(got, true, own, own[0], 0, SHAPE)


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_comparisons(own: torch.Tensor, comparison: str) -> None:
    true, got = own.double(), own.double().flip(0).to(own.dtype)
    with OnGpu():
        COMPARISONS[comparison](own, got, true)


def test_answers_by_pieces(own: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "FROM_BYTES", 0)
    monkeypatch.setattr(pieces, "PIECE_BYTES", own.nbytes)
    with OnGpu():
        assert pieces.rows(lambda inputs: inputs[0].clone(), [own], own) == CALLS // 2


@pytest.mark.parametrize("variant", sorted(set(Variant) - set(input_variants.REACHED)), ids=str)
def test_variants_of_inputs(own: torch.Tensor, variant: Variant) -> None:
    with OnGpu():
        (changed,) = varied_inputs.applied(variant, [own])
    assert changed.dtype == own.dtype
    only_signs = own.dtype == torch.float8_e8m0fnu and variant in OF_SIGNS  # it has none
    stays = variant == Variant.OWN or only_signs
    assert stays == torch.equal(changed.view(torch.uint8), own.view(torch.uint8))


def test_effect_of_rounding_inputs(own: torch.Tensor) -> None:
    with OnGpu():
        rounding_of_inputs, change, _ = input_domain.moved(
            lambda inputs: inputs[0].float(), [own], own.float()
        )
    assert rounding_of_inputs == torch.finfo(own.dtype).eps / 2
    assert 0 < change <= rounding_of_inputs * 2


def test_plan_of_unusual_inputs(own: torch.Tensor) -> None:
    def product(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return (x.float() * factor).clamp(-99.0, 99.0)

    with OnGpu():
        plan = reaching_inputs.plan(
            product, lambda: [own.clone(), torch.randn(1)], torch.device("cpu")
        )
    assert plan.scaling is not None
