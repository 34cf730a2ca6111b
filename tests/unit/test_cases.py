"""A problem by cases: forms of its definition, and the evaluation made from those of its cases."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from app.domain.evaluation import CaseOutcome, Environment, Evaluation, EvaluationError, Status
from app.domain.evidence import Ablation, Testimony
from app.domain.output_checks import Correctness, PeerRule, Trial
from tests.unit import measurements
from workers.protocol import layout
from workers.protocol.problem_case import Case
from workers.referee import evaluate_cases
from workers.shims.problem import cases

CPU = torch.device("cpu")
ENVIRONMENT = Environment(
    device_class="cpu",
    device_name="x",
    device_id="x",
    node="here",
    python="3",
    torch="2",
    triton="3",
)


def answers(*given: object, index: int = 0) -> cases.CaseModel:
    return cases.CaseModel(lambda: list(given), index, CPU)


def doubled(n: int = 3) -> dict[str, object]:
    x = torch.randn(n)
    return {"inputs": [x], "outputs": 2 * x}


def test_a_case_is_drawn_anew_each_time_and_knows_the_answers_of_late() -> None:
    model = cases.CaseModel(lambda: [doubled()], 0, CPU)
    drawn = [model.draw()[0] for _ in range(2)]
    assert not torch.equal(*drawn)
    for x in drawn:
        assert torch.equal(model(x), 2 * x)
        assert torch.equal(model(x.clone()), 2 * x), "by content, too"


def test_it_has_no_answer_to_anything_else() -> None:
    model = cases.CaseModel(lambda: [doubled()], 0, CPU)
    (x,) = model.draw()
    for other in (x + 1, x.double(), x[:2], 5):
        with pytest.raises(ValueError, match="own inputs alone"):
            model(other)
    with pytest.raises(ValueError, match="own inputs alone"):
        model(x, x)


def test_answers_long_gone_are_forgotten() -> None:
    model = cases.CaseModel(lambda: [doubled()], 0, CPU)
    (first,) = model.draw()
    for _ in range(cases.KEPT):
        model.draw()
    with pytest.raises(ValueError, match="own inputs alone"):
        model(first)


def test_a_copy_of_the_model_is_the_model() -> None:
    model = answers(doubled())
    assert copy.deepcopy(model) is model


def test_what_a_case_is_called_and_how_closely_it_is_to_be_met() -> None:
    given = [
        doubled(),
        doubled() | {"name": "long", "rtol": 1e-3},
        doubled() | {"atol": 0, "rtol": 1e-2},
    ]
    found = [answers(*given, index=index).described() for index in range(3)]
    assert [case.name for case in found] == ["case_0", "long", "case_2"]
    assert [(case.rtol, case.atol) for case in found] == [
        (None, None),
        (1e-3, cases.OTHER_TOLERANCE),
        (1e-2, 0.0),
    ]
    assert {(case.index, case.of) for case in found} == {(0, 3), (1, 3), (2, 3)}
    assert [Case.checked(vars(case)) for case in found] == found


def test_cases_may_come_one_by_one_and_one_may_come_alone() -> None:
    def endless_work() -> Iterator[dict[str, object]]:
        yield doubled()
        raise AssertionError("the first case needs no other")

    assert len(cases.CaseModel(endless_work, 0, CPU).draw()) == 1
    alone = cases.CaseModel(lambda: doubled(), 0, CPU)
    assert alone.described().of == 1


@pytest.mark.parametrize("inputs", [torch.ones(2), [torch.ones(2)], (torch.ones(2),)])
def test_inputs_may_be_a_list_or_the_only_one_and_names_may_be_singular(inputs: object) -> None:
    assert torch.equal(answers({"input": inputs, "output": torch.ones(1)}).draw()[0], torch.ones(2))


def test_inputs_with_names_come_in_the_order_of_these() -> None:
    model = answers({"inputs": {"y": 2.0, "x": 1.0}, "outputs": 3.0})
    assert model.described().keywords == ("x", "y")
    assert model.draw() == [1.0, 2.0]
    assert model(1.0, 2.0) == 3.0


@pytest.mark.parametrize(
    ("get_cases", "says"),
    [
        (list, "expected 1 to 100 cases, got none"),
        (lambda: itertools.repeat(doubled()), "expected 1 to 100 cases, got more"),
        (lambda: 5, "expected a list of dicts, got int"),
        (lambda: "cases", "expected a list of dicts, got str"),
        (lambda: [torch.ones(3)], "case 0: expected a dict with inputs and outputs, got Tensor"),
        (lambda: [{"inputs": [1.0]}], "case 0: expected outputs, found inputs"),
        (lambda: [{"outputs": 1.0, "name": "x"}], "case 0: expected inputs, found name, outputs"),
        (
            lambda: [doubled() | {"rtol": "tight"}],
            "case 'case_0', rtol: expected a number from 0 on, got 'tight'",
        ),
        (
            lambda: [doubled() | {"atol": float("nan")}],
            "atol: expected a number from 0 on, got nan",
        ),
        (lambda: [doubled() | {"atol": -1}], "atol: expected a number from 0 on, got -1"),
    ],
)
def test_a_bad_definition_says_what_was_expected(
    get_cases: Callable[[], list[object]], says: str
) -> None:
    model = cases.CaseModel(get_cases, 0, CPU)
    with pytest.raises((ValueError, TypeError), match=says):
        [model.described(), model.draw()]


@pytest.mark.parametrize(
    "changed",
    [{"index": 3}, {"of": 0}, {"rtol": None}, {"atol": float("inf")}, {"keywords": ["x-y"]}],
)
def test_the_referee_believes_no_case_that_cannot_be(changed: dict[str, object]) -> None:
    case = vars(Case(index=0, of=3, name="x", rtol=1e-3, atol=1e-3))
    with pytest.raises(layout.UnsupportedError):
        Case.checked(case | changed)


def evaluated(
    index: int,
    *,
    of: int = 2,
    status: Status = Status.PASSED,
    ablation: Ablation | None = None,
    **correctness: object,
) -> Evaluation:
    name = f"case_{index}"
    error = None if status is Status.PASSED else EvaluationError(kind="k", message="it is wrong")
    fields: dict[str, object] = {
        "calls": 3,
        "failed_calls": 0,
        "trials": (measurements.TRIAL,),
        "mode": "eval",
        "precision_class": "float32",
        "peer_rules": (PeerRule(name="peer", passed_calls=2, calls=3),),
        "null_answers": ("zeros", "mean"),
        "output_constant": True,
        "deterministic": True,
    }
    return Evaluation(
        status=status,
        environment=ENVIRONMENT,
        seed=str(index),
        error=error,
        correctness=Correctness(**(fields | correctness)),  # type: ignore[arg-type]
        cases=(
            CaseOutcome(
                index=index, of=of, name=name, status=status, candidate_us=10.0 * (1 + index)
            ),
        ),
        testimony=Testimony(launches=1, launches_alone=1, stdout=f"said {index}"),
        stage_ms={"timing": 5.0},
        ablation=ablation,
    )


def test_what_passes_in_all_cases_has_passed() -> None:
    alike = evaluated(0, has_inputs=False, near_calls=1, own_truth_calls=1)
    found = evaluate_cases.merged(
        [alike, evaluated(1, near_calls=2, own_truth_calls=1)], b"\1" * 32, 60
    )
    assert (found.status, found.error, found.seed) == (Status.PASSED, None, "01" * 32)
    assert [case.name for case in found.cases] == ["case_0", "case_1"]
    assert found.candidate_us == 10.0, "of the first"
    assert found.testimony == Testimony(launches=2, launches_alone=2, stdout="said 0said 1")
    assert found.stage_ms == {"timing": 10.0}
    assert found.correctness is not None
    assert (found.correctness.calls, found.correctness.failed_calls) == (6, 0)
    assert (found.correctness.near_calls, found.correctness.own_truth_calls) == (3, 2)
    assert found.correctness.has_inputs
    assert [trial.case for trial in found.correctness.trials] == ["case_0", "case_1"]
    assert found.correctness.peer_rules == (PeerRule(name="peer", passed_calls=4, calls=6),)


def test_a_problem_is_degenerate_only_where_every_case_is() -> None:
    told = evaluated(
        1,
        output_constant=False,
        null_answers=("mean",),
        deterministic=False,
        precision_class="tf32",
    )
    found = evaluate_cases.merged([evaluated(0), told], bytes(32), 60).correctness
    assert found is not None
    assert (found.output_constant, found.null_answers) == (False, ("mean",))
    assert (found.deterministic, found.precision_class) == (False, "tf32")


def test_every_wrong_case_is_named() -> None:
    found = evaluate_cases.merged(
        [
            evaluated(0, of=3, status=Status.INCORRECT),
            evaluated(1, of=3),
            evaluated(2, of=3, status=Status.INCORRECT),
        ],
        bytes(32),
        60,
    )
    assert found.status is Status.INCORRECT
    assert found.error is not None
    assert found.error.message == "case 'case_0' of 3: it is wrong (failed, too: 'case_2')"


@pytest.mark.parametrize("worse", [Status.CRASHED, Status.TIMEOUT, Status.INVALID])
def test_what_ends_it_counts_for_more_than_a_wrong_answer(worse: Status) -> None:
    found = evaluate_cases.merged(
        [evaluated(0, status=Status.INCORRECT), evaluated(1, status=worse)], bytes(32), 60
    )
    assert found.status is worse


def test_cases_that_there_was_no_time_for_have_not_passed() -> None:
    found = evaluate_cases.merged([evaluated(0, of=4)], bytes(32), 60)
    assert found.status is Status.TIMEOUT
    assert found.error is not None
    assert found.error.message == "1 of 4 cases in 60 s, and all of those right"
    assert found.correctness is not None


def test_kernels_that_do_not_matter_in_one_case_speak_against_it() -> None:
    matter = Ablation(attempted=True, reason="", still_correct=False)
    decoys = replace(matter, still_correct=True)
    found = evaluate_cases.merged(
        [evaluated(0, ablation=matter), evaluated(1, ablation=decoys)], bytes(32), 60
    )
    assert found.ablation == decoys


def test_no_wrong_call_is_lost_among_many() -> None:
    wrong = Trial(call=70, seed="", ok=False, outputs=())
    many = tuple(Trial(call=call, seed="", ok=True, outputs=()) for call in range(70))
    found = evaluate_cases.merged(
        [evaluated(0, trials=many), evaluated(1, trials=(*many, wrong))], bytes(32), 60
    )
    assert found.correctness is not None
    trials = found.correctness.trials
    assert len(trials) == evaluate_cases.KEPT_TRIALS
    assert trials[-1] == replace(wrong, case="case_1")
    assert {trial.case for trial in trials} == {"case_0", "case_1"}
