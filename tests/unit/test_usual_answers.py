"""Inputs that are outside a problem's domain by the size of the answers to them."""

import torch

from workers.referee.comparison import correctness, usual_answers


def test_an_answer_that_is_nan_in_places_is_no_measure_unless_usual_ones_are() -> None:
    usual = torch.randn(64, dtype=torch.float64)
    partly, infinite = usual.clone(), usual.clone()
    partly[3], infinite[3] = torch.nan, -torch.inf
    unusual = torch.stack([usual, partly, infinite])
    of_numbers, of_nan = (
        usual_answers.answer_size(each.float()[None], each[None]) for each in (usual, partly)
    )
    said = usual_answers.objections(unusual.float(), unusual, of_numbers)
    assert said == ["", usual_answers.NOT_A_NUMBER, ""]
    assert usual_answers.objections(unusual.float(), unusual, of_nan) == ["", "", ""]


def test_a_faint_answer_may_err_by_a_few_roundings_near_one() -> None:
    x = 1e-6 * torch.randn(1, 256, dtype=torch.float64)
    size = usual_answers.AnswerSize(rms=0.6, error=1e-7)
    rule = correctness.Rule(
        gross=True, least_norms=(usual_answers.least_norm(size, torch.float32, 256),)
    )
    single = x.float()
    for got, right in ((2 * torch.sigmoid(2 * single) - 1, True), (0.8 * single, False)):
        compared = correctness.compare(
            got, torch.tanh(x), torch.tanh(single), torch.zeros(1), 0, (256,), rule
        )
        assert compared.ok == [right]


def test_integers_that_the_reference_itself_has_otherwise_say_nothing() -> None:
    exact = torch.arange(400).expand(2, -1).clone()
    own = exact.clone()
    own[:, :8] += 1  # decided by rounding
    before = usual_answers.answer_size(exact[:1], exact[:1])
    assert usual_answers.objections(own, exact, before) == ["", ""]
    own[1, :40] += 1
    fine, said = usual_answers.objections(own, exact, before)
    assert not fine
    assert said.startswith("10% of the reference's own integers")
    usual = usual_answers.answer_size(own[:1], exact[:1])
    assert usual_answers.objections(own, exact, usual) == ["", ""]
