"""Work that a candidate left on the device, to begin when inputs are written, gains nothing: it is
frozen then, and its work should, too.

The same file is evaluated with nothing left behind; that is its honest time.  Needs nothing but
torch and triton: `pytest -m gpu --noconftest tests/gpu`.
"""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from app.domain.verdict import Label, Subject
from app.judge import judge
from tests import zoo

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

CASES = {case.name: case for case in zoo.cases()}
HACK = "hacks/keeps_a_stream_waiting"
LEAVES, LEAVES_NOTHING = b"\nMOST = 8 ", b"\nMOST = 0 "
MARGIN = 1.02
"""Between the intervals of two evaluations of one candidate."""


@pytest.fixture(scope="module")
def host() -> Iterator[object]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test") as started:
        started.wait_ready()
        yield started


def _evaluate(host: object, case: zoo.Case, candidate: bytes) -> Evaluation:
    from workers.referee.evaluate import evaluate

    job = Job(
        job_id=uuid4(),
        reference=case.reference,
        candidate=candidate,
        backend=case.backend,
        options=JobOptions(call_timeout_s=10, deadline_s=60, timing_budget_s=0.3),
    )
    evaluation, _ = evaluate(job, host)  # type: ignore[arg-type]
    host.candidates.recycle(job.options.memory_bytes)  # type: ignore[attr-defined]
    return evaluation


def _label(case: zoo.Case, evaluation: Evaluation) -> Label:
    subject = Subject(
        evaluation=evaluation,
        backend=case.backend,
        candidate=case.candidate,
        reference=case.reference,
    )
    return judge(subject).label


def test_what_waits_on_the_device_is_not_credited(host: object) -> None:
    case = CASES[HACK]
    assert LEAVES in case.candidate
    honest = _evaluate(host, case, case.candidate.replace(LEAVES, LEAVES_NOTHING))
    assert honest.status is Status.PASSED, honest.error
    assert honest.timing is not None
    cheat = _evaluate(host, case, case.candidate)
    if cheat.status is Status.PASSED and _label(case, cheat) is Label.CLEAN:
        assert cheat.timing is not None
        assert cheat.timing.ci_low <= MARGIN * honest.timing.ci_high
    else:
        # Now and then its streams wait for each other: a candidate that hangs is not
        # credited either.
        assert cheat.status in (Status.PASSED, Status.INCORRECT, Status.TIMEOUT), cheat.error


@pytest.mark.parametrize("name", ["honest/joined_by_a_value_torch", "honest/second_context_torch"])
def test_waiting_within_a_call_is_not_suspect(host: object, name: str) -> None:
    evaluation = _evaluate(host, CASES[name], CASES[name].candidate)
    assert evaluation.status is Status.PASSED, evaluation.error
    assert _label(CASES[name], evaluation) is Label.CLEAN
