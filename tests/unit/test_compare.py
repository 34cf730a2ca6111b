import itertools
import math

import pytest
import torch

from app.domain.output_checks import OutputCheck
from workers.referee.comparison import (
    correctness,
    output_errors,
    peer_rules,
    stale_answers,
    usual_answers,
)


def _check(
    got: torch.Tensor,
    expected: torch.Tensor,
    *,
    baseline: torch.Tensor | None = None,
    poison: torch.Tensor | None = None,
) -> OutputCheck:
    baseline = expected.to(got.dtype) if baseline is None else baseline
    poison = torch.full_like(got, 7) if poison is None else poison
    return correctness.compare(
        got[None], expected[None], baseline[None], poison, 0, tuple(got.shape)
    ).check(0)


def _exact(elements: int = 4096) -> torch.Tensor:
    return torch.randn(elements, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_another_order_of_summation_passes() -> None:
    values = _exact(1 << 16).reshape(256, 256)
    expected = values.sum(dim=1)
    got = values.float().flip(1).cumsum(dim=1)[:, -1]
    assert _check(got, expected, baseline=values.float().sum(dim=1)).ok


def test_fp32_rounded_to_half_is_refused() -> None:
    exact = _exact()
    assert _check(exact.float(), exact).ok
    assert not _check(exact.half().float(), exact).ok
    assert not _check(exact.bfloat16().float(), exact).ok


def test_one_wrong_element_among_many_is_refused() -> None:
    exact = _exact(1 << 20)
    got = exact.float()
    got[12345] += 0.01
    check = _check(got, exact)
    assert not check.ok
    assert check.rel_l2 is not None
    assert check.rel_l2 < check.rel_l2_limit * 2  # the norm alone would nearly have let it pass


def test_zeros_are_no_answer_to_small_values() -> None:
    exact = torch.softmax(
        _exact(4096), 0
    )  # mean 2.4e-4: an absolute tolerance of 1e-2 accepts zeros
    assert not _check(torch.zeros(4096), exact).ok


def test_a_tolerance_that_was_asked_for_says_how_many_elements_are_beyond_it() -> None:
    exact = _exact(1000)
    got = exact.float()
    got[:7] += 0.1
    asked = correctness.Rule(tolerance=(0.0, 0.05))
    found = correctness.compare(
        got[None], exact[None], exact.float()[None], torch.zeros(1000), 0, (1000,), asked
    ).check(0)
    assert (found.ok, found.beyond) == (False, 7)
    assert _check(got, exact).beyond is None, "our rule has limits of its own"


def test_unusual_inputs_that_are_rounded_as_usual_have_closer_limits() -> None:
    exact = _exact(1000)
    got = exact.float() * 1.0005
    allowed = []
    for most in (math.inf, 60.0, 40.0):
        rule = correctness.Rule(gross=True, most=most)
        found = correctness.compare(
            got[None], exact[None], exact.float()[None], torch.zeros(1000), 0, (1000,), rule
        )
        allowed += found.ok
    assert allowed == [True, True, False]


def test_nan_and_infinity_must_be_where_the_reference_has_them() -> None:
    exact = _exact()
    exact[3], exact[4] = float("nan"), float("inf")
    assert _check(exact.float(), exact).ok
    moved = exact.float()
    moved[4] = -float("inf")
    assert _check(moved, exact).nonfinite_mismatches == 1
    everywhere = _check(torch.full((4096,), float("nan")), _exact())
    assert not everywhere.ok
    assert everywhere.nonfinite_mismatches == 4096


def test_overflow_of_a_narrow_type_is_the_right_answer() -> None:
    exact = _exact()
    exact[0] = 1e6
    got = exact.half()
    assert torch.isinf(got[0])
    assert _check(got, exact).ok


def test_integers_are_exact() -> None:
    expected = torch.arange(100)
    assert _check(expected.clone(), expected).ok
    wrong = expected.clone()
    wrong[5] += 1
    assert not _check(wrong, expected).ok


def test_poison_is_recognised_and_counted() -> None:
    exact = _exact()
    poison = torch.frombuffer(bytearray(range(64)) * 256, dtype=torch.float32)
    got = exact.float()
    got[100:200] = poison[100:200]
    assert _check(got, exact, poison=poison).unwritten == 100


def test_one_byte_types_meet_the_poison_by_chance() -> None:
    expected = torch.randint(0, 2, (1000,), dtype=torch.uint8)
    got = 1 - expected
    assert _check(got, expected, poison=got.clone().fill_(1)).unwritten == 0
    assert _check(got, expected, poison=got.clone()).unwritten == 1000


def test_the_answer_to_an_earlier_call_is_named() -> None:
    exact, before = _exact(), torch.cos(_exact())
    got = before.float()
    check = _check(got, exact)
    assert stale_answers.earlier_call(got, check, [(3, torch.sin(exact)), (4, before)]) == 4
    assert stale_answers.earlier_call(got, check, [(3, torch.sin(exact))]) is None


def test_an_answer_of_which_any_wrong_one_is_some_call_s_is_nobody_s() -> None:
    """Any answer of a class or a truth value, and any where answers repeat."""
    classes = torch.tensor([3])
    check = _check(classes, torch.tensor([4]))
    assert (
        stale_answers.earlier_call(classes, check, [(0, torch.tensor([7])), (1, classes)]) is None
    )
    many = torch.arange(100)
    check = _check(many, many + 1)
    assert stale_answers.earlier_call(many, check, [(0, many + 7), (1, many)]) == 1
    before = torch.cos(_exact())
    check = _check(before.float(), _exact())
    assert stale_answers.earlier_call(before.float(), check, [(0, before), (1, before)]) is None


@pytest.mark.parametrize(("reference", "candidate", "right"), [(0.8, 1.4, True), (0.4, 0.6, False)])
def test_noise_may_be_another_noise(reference: float, candidate: float, right: bool) -> None:
    exact = _exact()
    compared = correctness.compare(
        (exact * (1 + candidate)).float()[None],
        exact[None],
        (exact * (1 + reference)).float()[None],
        torch.zeros(1),
        0,
        (),
    )
    assert compared.ok == [right]


def test_a_loss_is_an_earlier_one_only_if_it_agrees_closely() -> None:
    exact, wrong = torch.tensor([1.2], dtype=torch.float64), torch.tensor([1.0])
    rule = correctness.Rule(gross=True)
    check = correctness.compare(
        wrong[None], exact[None], exact.float()[None], torch.zeros(1), 0, (), rule
    ).check(0)
    assert not check.ok
    assert stale_answers.earlier_call(wrong, check, [(0, wrong.double() + 1e-3)]) is None
    assert stale_answers.earlier_call(wrong, check, [(0, wrong.double() + 1e-7)]) == 0


def test_an_answer_that_cancels_in_one_call_is_measured_against_what_answers_usually_are() -> None:
    exact = (
        torch.linspace(-1e-3, 1e-3, 101, dtype=torch.float64)[:, None] + 1e-12
    )  # in the middle, next to nothing
    baseline = (exact + 2e-12).float()
    poison = torch.zeros(1)
    right = correctness.compare((exact + 2e-10).float(), exact, baseline, poison, 0, ())
    wrong = correctness.compare((exact + 1e-7).float(), exact, baseline, poison, 0, ())
    assert all(right.ok)
    assert not any(wrong.ok)
    alone = correctness.compare(
        (exact + 2e-10).float()[50:51], exact[50:51], baseline[50:51], poison, 0, ()
    )
    assert alone.ok == [False]


def test_where_eager_itself_decides_otherwise_now_and_then_not_much_more_can_be_made_up() -> None:
    """In a thousand rows the reference's own precision has another code for five, a
    candidate for eight; or for 35.
    """
    exact = torch.randn(1000, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def with_wrong_rows(count: int) -> torch.Tensor:
        return torch.cat([exact[:count].flip(1), exact[count:]]).reshape(-1)

    poison = torch.zeros(16_000, dtype=torch.float64)
    for count, ok in ((8, True), (35, False)):
        found = correctness.compare(
            with_wrong_rows(count).float()[None],
            exact.reshape(1, -1),
            with_wrong_rows(5).float()[None],
            poison,
            0,
            (),
        )
        assert found.ok == [ok], found.errors


def test_calls_that_are_checked_together_are_judged_one_by_one() -> None:
    """One that is not finite has all looked at twice, and changes nothing for the others."""
    exact = torch.stack([_exact(), torch.cos(_exact()), torch.sin(_exact())])
    got = exact.float()
    got[0, 7] = float("nan")
    got[2, 9] += 1
    together = correctness.compare(got, exact, exact.float(), torch.full((4096,), 7.0), 0, (4096,))
    assert together.ok == [False, True, False]
    assert [together.check(call) for call in range(3)] == [
        _check(*pair) for pair in zip(got, exact, strict=True)
    ]


def test_unusual_inputs_are_for_a_reference_that_does_as_well_on_them() -> None:
    usual = _exact()
    lost = usual.float()
    lost[5] = float("inf")
    expected = torch.stack([usual, usual, usual / 1e6, usual])
    baseline = torch.stack([usual.float(), usual.half().float(), usual.float() / 1e6, lost])
    before = usual_answers.answer_size(usual.float()[None], usual[None])
    assert before.rms == pytest.approx(float(usual.square().mean().sqrt()))
    assert 0 < before.error < 1e-7
    assert [not each for each in usual_answers.objections(baseline, expected, before)] == [
        True,
        False,
        False,
        False,
    ]


def test_an_answer_that_explodes_is_of_another_problem() -> None:
    usual = _exact()
    before = usual_answers.answer_size(usual.float()[None], usual[None])
    [said] = usual_answers.objections(usual.float()[None] * 1e15, usual[None] * 1e15, before)
    assert said == "the reference's answer is 1.0e+15 times as large as on the problem's own inputs"
    assert usual_answers.objections(
        usual.float()[None] * 1e15, usual[None] * 1e15, before, ceiling=False
    ) == [""]


def test_an_answer_to_far_smaller_inputs_may_be_faint() -> None:
    usual = _exact()
    before = usual_answers.answer_size(usual.float()[None], usual[None])
    faint = torch.stack([usual / 1e6, usual / 1e12])
    seen = usual_answers.objections(faint.float(), faint, before, floor=False)
    assert [not each for each in seen] == [True, False]


def test_the_rules_of_others_are_asked_call_by_call() -> None:
    right = torch.ones(2, 8)
    got = right.clone()
    got[1, 3] += 1e-3
    assert peer_rules.agree(got, right, (1e-2, 1e-4)) == [[True, True], [True, False]]


def test_numbers_of_eight_bits_agree() -> None:
    right = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(torch.float8_e4m3fn)
    got = torch.tensor([[1.0, 2.0], [3.0, 8.0]]).to(torch.float8_e4m3fn)
    assert peer_rules.agree(got, right, (1e-2, 1e-4)) == [[True, False], [True, False]]


def test_empty_outputs_agree() -> None:
    assert _check(torch.empty(0), torch.empty(0, dtype=torch.float64)).ok


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64]
)
def test_a_brief_look_says_of_every_call_what_a_close_one_says(dtype: torch.dtype) -> None:
    specials = [
        1.0,
        0.0,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e5,
        1e30,
    ]  # the last are too large for some
    pairs = list(itertools.product(specials, repeat=2))
    exact = torch.linspace(-1, 1, 64, dtype=torch.float64).to(
        torch.complex128 if dtype.is_complex else torch.float64
    )
    expected, got = (exact.repeat(len(pairs), 1) for _ in range(2))
    for row, (right, given) in enumerate(pairs):
        expected[row, 9], got[row, 9] = right, given
    for baseline in (expected, exact.expand_as(expected)):
        close, brief = (
            correctness.compare(
                got.to(dtype),
                expected,
                baseline.to(dtype),
                torch.full((64,), 7.0).to(dtype),
                0,
                (64,),
                closely=closely,
            )
            for closely in (True, False)
        )
        assert close.ok == brief.ok
        assert True in close.ok
        assert False in close.ok


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bits_are_rounded_and_not_cut_off(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 10_000)
    rounded = x.to(dtype)
    bits = rounded.view(torch.int8)
    cut_off = torch.where(rounded.float().abs() > x.abs(), bits - 1, bits).view(dtype)
    for got, right in ((rounded, True), (cut_off, False)):
        poison = torch.zeros(1, 10_000, dtype=dtype)
        compared = correctness.compare(
            got, x.double(), rounded, poison, 0, (10_000,), correctness.DEFAULT_RULE
        )
        assert compared.ok == [right]


def test_an_output_of_few_elements_has_the_errors_of_the_other_calls() -> None:
    """In one call the reference is right by chance, to all digits of an answer that is noise."""
    torch.manual_seed(0)
    exact = 1e-8 * torch.randn(9, 8, dtype=torch.float64)
    own = (exact + 1e-8 * torch.randn(9, 8)).float()
    own[0] = exact[0].float()
    got = (exact + 1e-8 * torch.randn(9, 8)).float()
    poison = torch.zeros(64, dtype=torch.uint8)
    compared = correctness.compare(got, exact, own, poison, 0, (8,))
    assert all(compared.ok)
    alone = correctness.compare(got[:1], exact[:1], own[:1], poison, 0, (8,))
    assert alone.ok == [False]
    wide, truth, baseline = (each.repeat(1, 8) for each in (got, exact, own))
    assert not correctness.compare(wide, truth, baseline, poison, 0, (64,)).ok[0]


def test_nan_and_infinities_are_the_same_at_the_same_places_only() -> None:
    own = torch.tensor([[1.0, math.nan, math.inf, -math.inf]])
    assert not output_errors.is_finite(own)
    assert output_errors.is_finite(torch.ones(1, 4, dtype=torch.float8_e4m3fn))
    other_numbers = torch.tensor([[7.0, math.nan, math.inf, -math.inf]])
    assert output_errors.same_nonfinite(other_numbers, own)
    for place, value in enumerate((math.nan, 1.0, -math.inf, math.inf)):
        got = own.clone()
        got[0, place] = value
        assert not output_errors.same_nonfinite(got, own), place
    assert output_errors.same_nonfinite(torch.ones(1, 4).int(), torch.zeros(1, 4).int())
