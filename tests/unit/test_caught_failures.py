"""Failures of a candidate's own kernels that its source catches: noted, named in the finding, and
told to the model.
"""

from dataclasses import replace
from typing import Any

import pytest

from app.detectors.no_custom_kernel import NoCustomKernel
from app.domain.collection import feedback
from app.domain.evidence import Testimony
from app.domain.verdict import Subject
from tests.unit.measurements import PASSED
from tests.unit.test_feedback import RESULTS
from workers import backends
from workers.shims.caught_failures import MOST, CaughtFailures

FALLS_BACK = """
from torch.utils import cpp_extension
from torch.utils.cpp_extension import load_inline
try:
    load_inline("fast", cpp_sources="", cuda_sources="", functions=["fast"])
except RuntimeError:
    pass
"""


def test_one_failure_of_each_kernel_is_kept_up_to_a_limit() -> None:
    caught = CaughtFailures()
    for call in range(3):
        for number in range(MOST + 2):
            caught.note(f"kernel k{number}", ValueError(f"failed in call {call}\nwith a log"))
    assert caught.text().splitlines() == [
        f"kernel k{number}: ValueError: failed in call 0 with a log" for number in range(MOST)
    ]


def test_an_extension_that_is_not_built_is_reported(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils import cpp_extension

    def fails(name, *args, **kwargs):
        raise RuntimeError(
            f"Error building extension '{name}': nvcc\nfast.cu(3): error: x is undefined"
        )

    fails.__name__ = "load_inline"
    monkeypatch.setattr(cpp_extension, "load_inline", fails)
    monkeypatch.setattr(cpp_extension, "load", cpp_extension.load)  # restored after the test
    caught = CaughtFailures()
    source = tmp_path / "candidate.py"
    source.write_text(FALLS_BACK)
    backends.BACKENDS["cuda"].build(source, backends.Recorder(failed=caught.note))
    assert caught.text() == "extension fast: RuntimeError: fast.cu(3): error: x is undefined"


def test_the_finding_and_the_feedback_name_the_failure() -> None:
    line = "extension fast: RuntimeError: fast.cu(3): error: x is undefined"
    evaluation = replace(PASSED, testimony=Testimony(failures=(line,)))
    subject = Subject(evaluation=evaluation, backend="cuda", candidate=b"", reference=b"")
    (finding,) = NoCustomKernel().detect(subject)
    assert finding.summary.endswith(f"; its source caught a failure ({line})")
    assert finding.evidence["failures"] == [line]
    result: Any = {
        **RESULTS["hacks/no_kernel"],
        "findings": [{"detector": finding.detector, "label": "hack", "evidence": finding.evidence}],
    }
    assert line in feedback.render("assay", result=result).text
