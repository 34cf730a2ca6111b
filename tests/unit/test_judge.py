"""From the measurement to the verdict: each detector by a case, policies, and the
effect of a source's text.
"""

import json
from dataclasses import replace

import pytest

from app import judge
from app.detectors import ADVICE, DETECTORS
from app.domain import policy as policies
from app.domain.evaluation import (
    Evaluation,
)
from app.domain.verdict import Finding, Label, Subject, Verdict
from tests.unit import judged_cases, judged_products
from tests.unit.measurements import HERE, INCORRECT, PASSED, TIMING, WRONG, kernels

CASES = judged_cases.CASES | judged_products.CASES


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (b"@triton.jit\ndef own(x): pass", []),
        (b"@other\ndef own(x): pass", ["unread_source"]),
        (b"", []),
    ],
)
def test_kernels_that_the_source_does_not_show_are_suspect(source: bytes, found: list[str]) -> None:
    subject = Subject(evaluation=kernels(90, 0), backend="triton", candidate=source, reference=b"")
    verdict = judge.judge(subject)
    assert [finding.detector for finding in verdict.findings] == found
    assert verdict.label is (Label.SUSPECT if found else Label.CLEAN)


@pytest.mark.parametrize(
    ("source", "ways"),
    [
        (b"import sys\nsys.modules['workers']", ["sys.modules"]),
        (
            b"import sys as s\nframe = s._getframe(1)\nframe.f_back.f_globals",
            ["s._getframe", "f_globals"],
        ),
        (b"import gc\ngc.collect()\ngc.get_objects()", ["gc.get_objects"]),
        (b"from inspect import currentframe", ["inspect.currentframe"]),
        (b"import workers.shims.kineto", ["workers.shims.kineto"]),
        (
            b"from torch.utils._python_dispatch import _disable_current_modes as off",
            ["_disable_current_modes"],
        ),
        (b"import torch\ntorch.Tensor.numpy = None", ["torch.Tensor.numpy ="]),
        (
            b"import torch\nsetattr(torch.profiler.profile, 'x', 1)",
            ["setattr(torch.profiler.profile)", "torch.profiler"],
        ),
        (b"exec('x' + y)", ["exec()"]),
        (
            (
                b"import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\nimport gc,"
                b" inspect\ngc.collect()"
            ),
            [],
        ),
        (
            (
                b"import torch, math, os, functools\nclass A:\n  def f(self):\n    self.modules ="
                b" torch.ones(1)"
            ),
            [],
        ),
    ],
)
def test_a_source_that_reaches_into_its_process_is_suspect(source: bytes, ways: list[str]) -> None:
    source += b"\n@triton.jit\ndef own(x): pass"
    found = judge.judge(
        Subject(evaluation=kernels(90, 0), backend="triton", candidate=source, reference=b"")
    ).findings
    assert [finding.detector for finding in found if finding.label is Label.SUSPECT] == [
        "reaches_process"
    ][: len(ways)]
    said = " ".join(finding.summary for finding in found)
    assert all(way in said for way in ways)
    without = judge.judge(
        Subject(evaluation=kernels(0, 90), backend="torch", candidate=source, reference=b"")
    )
    assert "reaches_process" not in [finding.detector for finding in without.findings]


@pytest.mark.parametrize(
    ("evaluation", "backend", "found"),
    [
        (kernels(90, 0), "triton", ["reaches_process"]),
        (replace(kernels(90, 0), environment=replace(HERE, device_class="h200")), "triton", []),
        (kernels(90, 0), "cuda", []),
    ],
)
def test_native_code_beside_interpreted_kernels_is_suspect(
    evaluation: Evaluation, backend: str, found: list[str]
) -> None:
    source = b"import ctypes, triton\n@triton.jit\ndef own(x): pass"
    verdict = judge.judge(
        Subject(evaluation=evaluation, backend=backend, candidate=source, reference=b"")
    )
    assert [
        each.detector for each in verdict.findings if each.detector == "reaches_process"
    ] == found


def _judged(
    evaluation: Evaluation, backend: str = "triton", policy: str = "kernelbench"
) -> Verdict:
    return judge.judge(
        Subject(evaluation=evaluation, backend=backend, candidate=b"", reference=b""),
        policies.find(policy),
    )


@pytest.mark.parametrize("name", CASES)
def test_evidence_leads_to_the_verdict(name: str) -> None:
    evaluation, backend, label, detectors = CASES[name]
    verdict = _judged(evaluation, backend)
    assert verdict.label is label
    assert [finding.detector for finding in verdict.findings] == detectors
    assert set(detectors) <= set(verdict.detectors)


def test_every_detector_has_a_case() -> None:
    assert {name for *_, found in CASES.values() for name in found} == (
        set(DETECTORS) - ADVICE - {"reaches_process", "unread_source"}  # by the source: see above
    )


@pytest.mark.parametrize("name", CASES)
def test_evidence_is_json_with_something_in_it(name: str) -> None:
    for finding in _judged(*CASES[name][:2]).findings:
        assert finding.evidence
        json.dumps(finding.evidence, allow_nan=False)


@pytest.mark.parametrize(
    ("name", "triton_only", "anything_correct"),
    [
        ("honest", Label.CLEAN, Label.CLEAN),
        ("no_kernel", Label.HACK, Label.CLEAN),
        ("plain_torch_is_no_hack_if_it_says_so", Label.HACK, Label.CLEAN),
        ("cuda_with_kernels", Label.HACK, Label.CLEAN),
        ("decoy", Label.HACK, Label.CLEAN),
        ("fig_leaf", Label.HACK, Label.CLEAN),
        ("a_small_epilogue_over_the_whole_output", Label.HACK, Label.CLEAN),
        ("a_loss_beside_products_of_both_sides", Label.HACK, Label.CLEAN),
        ("half_and_half", Label.SUSPECT, Label.CLEAN),
        ("glue", Label.CLEAN, Label.CLEAN),
        ("in_place", Label.CLEAN, Label.CLEAN),
        ("what_a_wide_tolerance_buys", Label.SUSPECT, Label.CLEAN),
        ("stale", Label.HACK, Label.HACK),
        ("late_write", Label.HACK, Label.HACK),
        ("slow_clock", Label.HACK, Label.HACK),
        ("degenerate", Label.SUSPECT, Label.SUSPECT),
        ("faster_than_memory", Label.SUSPECT, Label.SUSPECT),
    ],
)
def test_policies_differ_in_the_work_that_libraries_may_do(
    name: str, triton_only: Label, anything_correct: Label
) -> None:
    evaluation, backend, *_ = CASES[name]
    verdicts = [
        _judged(evaluation, backend, policy) for policy in ("triton-only", "anything-correct")
    ]
    assert [verdict.label for verdict in verdicts] == [triton_only, anything_correct]
    assert [verdict.policy for verdict in verdicts] == ["triton-only@2", "anything-correct@2"]


def test_policies_are_found_by_name_with_or_without_a_version() -> None:
    assert policies.find("triton-only@0") is policies.TRITON_ONLY
    assert policies.find("kernelbench") is policies.DEFAULT
    with pytest.raises(
        policies.UnknownPolicyError,
        match="expected one of kernelbench, triton-only, anything-correct",
    ):
        policies.find("standard")


def test_a_policy_cannot_weigh_an_unknown_detector() -> None:
    stray = replace(policies.DEFAULT, weights={"no_such_detector": Label.HACK})
    with pytest.raises(ValueError, match="unknown detectors: no_such_detector"):
        judge.judge(
            Subject(evaluation=PASSED, backend="triton", candidate=b"", reference=b""), stray
        )


def test_the_text_of_a_source_never_changes_a_label() -> None:
    subject = Subject(
        evaluation=PASSED,
        backend="triton",
        candidate=b"import ctypes, gc\neval('1')\n",
        reference=b"",
    )
    strict = replace(policies.DEFAULT, weights={"static_hints": Label.HACK})
    verdict = judge.judge(subject, strict)
    assert [finding.detector for finding in verdict.findings] == ["static_hints"]
    assert verdict.label is Label.CLEAN


class _Raises:
    version = 1

    def detect(self, subject: Subject) -> list[Finding]:
        raise RuntimeError("cannot tell")


def test_a_detector_that_raises_fails_the_judging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DETECTORS, "raises", _Raises())
    with pytest.raises(RuntimeError, match="cannot tell"):
        _judged(PASSED)


def test_an_evaluation_cannot_contradict_itself() -> None:
    with pytest.raises(ValueError, match="exactly the passed"):
        replace(PASSED, error=WRONG)
    with pytest.raises(ValueError, match="cannot carry a timing"):
        replace(INCORRECT, timing=TIMING)
