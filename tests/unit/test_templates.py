"""Prompt templates: placeholders, hashes, and those that come with Assay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.collection import templates
from app.domain.collection.templates import FEEDBACK, PROBLEM, Template
from app.domain.request import RequestError

VALUES = {
    "reference": "class Net: {x}",
    "entry_point": "Net",
    "backend": "triton",
    "device": "h200",
}


def template(body, kind=PROBLEM, name="mine"):
    return Template(name=name, kind=kind, body=body)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            "{reference} {refrence}",
            PROBLEM,
            r"unknown placeholder \{refrence\}; a problem template has",
        ),
        ("{feedback} {reference}", FEEDBACK, r"unknown placeholder \{reference\}"),
        ("no code", PROBLEM, r"expected the placeholder \{reference\}"),
        ("again", FEEDBACK, r"expected the placeholder \{feedback\}"),
        ("", PROBLEM, "characters"),
        ("{reference}", "summary", "kind: expected one of system, problem, feedback"),
    ],
)
def test_bad_templates_are_named(body, kind, message):
    with pytest.raises(RequestError, match=message):
        templates.check(template(body, kind))


@pytest.mark.parametrize("name", ["", "a b", "../x", "a@b", "x" * 65])
def test_bad_names_are_refused(name):
    with pytest.raises(RequestError, match="name"):
        templates.check(template("{reference}", name=name))


def test_braces_of_code_are_text():
    one = template("{reference} d = {1: 2}; f'{{x}}'; struct S { int a; };")
    templates.check(one)
    assert templates.fill(one, VALUES) == "class Net: {x} d = {1: 2}; f'{x}'; struct S { int a; };"


@given(st.text())
def test_values_are_never_placeholders(text):
    filled = templates.fill(template("a{reference}b"), {**VALUES, "reference": text})
    assert filled == f"a{text}b"


def test_kernels_and_example_follow_from_the_backend():
    one = template("{kernels}|{example}|{reference}")
    assert templates.fill(one, VALUES).startswith("Triton kernels|An example")
    assert templates.fill(one, {**VALUES, "backend": "torch"}).startswith("PyTorch code||")


def test_a_missing_value_is_named():
    with pytest.raises(RequestError, match="device"):
        templates.fill(template("{reference}{device}"), {"reference": "x"})


def test_hashes_are_of_kind_and_body():
    one = template("{reference}")
    assert one.sha256 == template("{reference}", name="other").sha256
    assert one.sha256 != template("{reference}", kind=FEEDBACK).sha256
    assert one.ref == f"mine@{one.sha256}"


@pytest.mark.parametrize("shipped", templates.shipped(), ids=lambda one: f"{one.name}.{one.kind}")
def test_shipped_templates_are_whole(shipped):
    templates.check(shipped)
    values = VALUES if shipped.kind == PROBLEM else {"feedback": "It is slow.", "turn": "2"}
    text = templates.fill(shipped, values)
    assert values.get("reference", "It is slow.") in text
    assert "{" not in text.replace("{x}", "")


def test_every_method_brings_both_kinds():
    names = {(one.name, one.kind) for one in templates.shipped()}
    assert names == {
        (name, kind)
        for name in ("assay", "dr_kernel", "kernelbench")
        for kind in (PROBLEM, FEEDBACK)
    }


@pytest.mark.parametrize("body", ["{reference}\0", "{reference}\ud800"])
def test_text_that_cannot_be_stored_is_refused(body):
    with pytest.raises(RequestError, match="expected text without NUL and lone surrogates"):
        templates.check(Template(name="x", kind="problem", body=body))
