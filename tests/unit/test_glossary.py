"""Every heading of a table has a tooltip, and the glossary explains the terms of the domain."""

from __future__ import annotations

import html
import re
from pathlib import Path

import app.web
from app.web import formatting, vocabulary

TEMPLATES = Path(app.web.__file__).parent / "templates"


def test_every_heading_of_a_table_has_a_tooltip() -> None:
    untipped: list[str] = []
    for template in sorted(TEMPLATES.glob("*.html")):
        text = template.read_text(encoding="utf-8")
        plain = re.findall(r'<th scope="col"(?: class="[a-z ]+")?>([^<{]+)</th>', text)
        tipped = [
            html.unescape(label.replace("\\'", "'"))
            for label in re.findall(r"\{\{ '([^{}]+?)' \| tipped \}\}", text)
        ]
        untipped += [f"{template.name}: {label}" for label in plain]
        untipped += [f"{template.name}: {label}" for label in tipped if not vocabulary.tip(label)]
    assert untipped == []


def test_every_field_of_a_filter_has_a_tooltip() -> None:
    untipped = []
    for template in sorted(TEMPLATES.glob("*.html")):
        for form in re.findall(
            r'<form[^>]*role="search".*?</form>', template.read_text(encoding="utf-8"), re.S
        ):
            untipped += [
                f"{template.name}: {label}"
                for label in re.findall(r'<label for="[a-z_-]+">([^<{]+)<', form)
            ]
    assert untipped == ["search.html: Id, short id, name, or SHA-256 of a candidate's source"]


def test_fields_beside_a_form_have_a_tooltip() -> None:
    assert vocabulary.tip("Filter of evaluations")
    assert "'or a file' | tipped" in (TEMPLATES / "new_job.html").read_text(encoding="utf-8")


def test_tooltips_are_sentences_and_no_heading_is_explained_twice() -> None:
    for meaning in (
        *vocabulary.TERMS.values(),
        *vocabulary.HEADINGS.values(),
        *vocabulary.LABELS.values(),
    ):
        assert re.fullmatch(r"[0-9A-Z‖].*\.", meaning), meaning
    assert not vocabulary.TERMS.keys() & vocabulary.HEADINGS.keys()
    assert not vocabulary.LABELS.keys() & (vocabulary.TERMS.keys() | vocabulary.HEADINGS.keys())


def test_plurals() -> None:
    assert [formatting.plural(number, "line") for number in (0, 1, 2)] == [
        "0 lines",
        "1 line",
        "2 lines",
    ]
    assert formatting.plural(1_000, "trajectory", "trajectories") == "1\u202f000 trajectories"
