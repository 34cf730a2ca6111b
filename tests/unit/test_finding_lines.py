"""Lines of the candidate that an error names."""

from __future__ import annotations

from app.domain.evaluation import EvaluationError
from app.web import finding_lines


def test_an_error_names_lines_of_the_candidate() -> None:
    error = EvaluationError(
        kind="raised",
        message="the candidate does not parse: '(' was never closed (candidate.py, line 19)",
        log=(
            '  File "candidate.py", line 23, in forward\n  File "/usr/lib/python3/torch/nn.py",'
            " line 1511, in _call\n"
        ),
    )
    assert finding_lines.error_lines(error) == (19, 23)
    assert finding_lines.error_lines(None) == ()
    assert finding_lines.with_error({23: "a hint"}, error) == {
        19: f"error: {error.message}",
        23: "a hint",
    }
