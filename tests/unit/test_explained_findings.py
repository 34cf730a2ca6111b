"""Findings in words: a sentence with units, expected beside got, for every detector
that there is.
"""

from __future__ import annotations

import re

import pytest

from app.detectors import DETECTORS
from app.domain.verdict import Finding, Label
from app.web import explained_findings, finding_meanings, stored_values


def finding(detector: str, **evidence: object) -> Finding:
    return Finding(
        detector=detector,
        version=1,
        label=Label.HACK,
        summary="its own clock says 0 µs",
        evidence=evidence,
    )


def test_every_detector_is_explained() -> None:
    assert finding_meanings.MEANINGS.keys() == set(DETECTORS)


@pytest.mark.parametrize("name", sorted(finding_meanings.MEANINGS))
def test_an_explanation_is_made_of_sentences(name: str) -> None:
    meaning = finding_meanings.MEANINGS[name]
    assert re.fullmatch(r"[A-Z].*\.", meaning.meaning)
    assert not meaning.title.endswith(".")


def test_a_sentence_has_units_and_expected_stands_beside_got() -> None:
    found = explained_findings.explained(
        finding(
            "claimed_time",
            claimed_us=0.0,
            measured_us=72924.9,
            short=36,
            blocks=36,
            worst_gap_us=9958.84,
        )
    )
    assert (
        found.sentence
        == "Self-reported time is 0 µs; measured time is 72.9 ms: the clock was tampered with."
    )
    assert [(row.expected, row.got) for row in found.compared] == [
        ("72.9 ms", "0 µs"),
        ("0 of 36", "36 of 36"),
    ]


def test_rows_without_their_values_are_left_out_and_the_summary_stands_in() -> None:
    found = explained_findings.explained(finding("claimed_time"))
    assert found.sentence == "Its own clock says 0 µs."
    assert found.compared == ()
    other = explained_findings.explained(
        finding("of_another_package", kernels=[{"name": "k", "launches": 3}])
    )
    assert (other.title, other.meaning) == ("Of another package", "")
    assert [(kernel.name, kernel.launches, kernel.time) for kernel in other.kernels] == [
        ("k", "3", "–")
    ]


@pytest.mark.parametrize(
    ("summary", "name"),
    [
        ("50% of the modelled work is in kernels of torch", "Modelled GPU time in library kernels"),
        ("50% of the device time is in kernels of torch", "Time in library kernels"),
    ],
)
def test_a_modelled_time_is_called_so(summary: str, name: str) -> None:
    evidence: dict[str, object] = {"own_us": 0.1, "library_us": 0.1}
    found = explained_findings.explained(
        Finding(
            detector="library_work",
            version=2,
            label=Label.CLEAN,
            summary=summary,
            evidence=evidence,
        )
    )
    assert found.compared[0].name == name


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("memory_bytes", 4294967296, "4.0 GiB"),
        ("deadline_s", 120.0, "120 s"),
        ("atol", None, "–"),
        ("variants", True, "yes"),
        ("baselines", [], "–"),
        ("reference_mhz", 1980.2, "1980 MHz"),
        ("smaller_share", 0.25, "25.0 %"),
        ("speedup", 1.3, "1.30×"),
    ],
)
def test_stored_values_have_units(key: str, value: object, text: str) -> None:
    assert stored_values.shown(value, key) == text
