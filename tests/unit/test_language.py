"""The language that a person reads: limits that may only fall (`python -m
tests.language` measures).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import language

FILES = list(language.sources(language.ROOT / tree for tree in language.TREES))
TESTS = list(language.sources([language.ROOT / "tests"]))
PAGES = language.pages()

TABLES = {
    "app/domain/source/source_ablation.py": 2,
    "tests/unit/judged_cases.py": 1,
    "workers/backends/interpreter/libdevice.py": 3,
    "workers/protocol/pretrained.py": 1,
    "workers/sandbox/seccomp.py": 9,
}
"""Files with tables that the formatter leaves as they are, and their number: lists of names,
system calls by architecture, functions, programs of the filter, cases with their verdicts.
Arguments and results are no tables.
"""

PER_THOUSAND = {"what": 0.10, "who": 0.50, "nobody": 0.05}
PER_THOUSAND_OF_TESTS = {"what": 0.50, "who": 0.60, "nobody": 0.10}
PER_THOUSAND_OF_PAGES = {"what": 0.5, "who": 0.3, "nobody": 0.0}


@pytest.mark.parametrize("paths", [FILES, PAGES], ids=["code", "pages"])
def test_texts_begin_with_their_subject(paths):
    assert [f"{one.path}:{one.line}: {one.text[:60]}" for one in language.badly_opened(paths)] == []


def test_docstrings_and_comments_of_tests_begin_with_their_subject():
    texts = [
        one for path in TESTS for one in (*language.docstrings(path), *language.comments(path))
    ]
    assert [
        f"{one.path}:{one.line}: {one.text[:60]}"
        for one in texts
        if one.opening in language.OPENINGS
    ] == []


@pytest.mark.parametrize("paths", [FILES, PAGES], ids=["code", "pages"])
def test_texts_name_persons_and_roles(paths):
    assert [f"{one.path}:{one.line}: {one.text[:60]}" for one in language.unnamed(paths)] == []


def found(path: Path) -> list[int]:
    return sorted(one.line for one in language.badly_opened([path]))


def test_first_words_of_docstrings_are_found(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        '"""BROWSE: what pages read."""\n'
        'WIDTH = 1\n"""Of a page, in pixels."""\n'
        'def height():\n    """`What` it is."""\n'
        'class Page:\n    """A page.  What it shows."""\n    title: str\n    """Title."""\n'
    )
    assert found(path) == [1, 3, 5]
    assert language.per_thousand([path])["what"] == pytest.approx(1000 * 3 / 18)


def test_first_words_of_comments_are_found(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        "x = 1  # of HTTP\n"
        "# The first line of a block\n# as it goes on in the second.\n"
        "y = 2\n# Whoever comes first.\n"
        "z = 3  # width in pixels\n"
    )
    assert found(path) == [1, 5]


def test_first_words_of_help_errors_labels_and_explanations_are_found(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        "import click\n"
        'option = click.option("--k", help="Of every page, in pixels.")\n'
        'EXPLAINED = {"decoy": ("Decoy", "What a kernel does that does not matter.")}\n'
        "def refuse(name, k):\n"
        '    raise ValueError(f"what {name} says is not known")\n'
        'LABEL = f"{1} of 3 rows"\n'
        'NOTE = "of the 3 rows"\n'
        'SHORT = "Of rows"\n'
    )
    assert found(path) == [2, 3, 5]


def test_first_words_of_migrations_are_found():
    assert any(path.parent.name == "versions" for path in FILES)


@pytest.mark.parametrize(
    ("ending", "text", "lines"),
    [
        (
            ".html",
            "{# What a page shows. #}\n<p>Of each run</p>\n<b>{{ n }}</b> of {{ m }}<i>of 3</i>",
            [1, 2],
        ),
        (".html", '<input title="Whose turn it is" placeholder="name">', [1]),
        (".html", '<a href="what">Runs</a><p>{% if x %}What is it?{% endif %}</p>', [1]),
        (".js", "let x = 'https://what';  // Who asks\n/* As\nbefore */\n// Rows", [1, 2]),
        (".css", "/* Of a page */ p { color: red }", [1]),
    ],
)
def test_first_words_of_pages_are_found(ending, text, lines, tmp_path):
    path = tmp_path / f"sample{ending}"
    path.write_text(text)
    assert found(path) == lines


def test_persons_without_a_name_are_found_everywhere(tmp_path):
    code, page = tmp_path / "sample.py", tmp_path / "sample.html"
    code.write_text(
        'x = 1  # for somebody\nraise ValueError("a fault of ours, to be sure")\nFINE = "runs as'
        ' `nobody`"\n'
    )
    page.write_text("<p>This blames nobody.</p>\n<p>Row</p>")
    assert sorted(one.line for one in language.unnamed([code])) == [1, 2]
    assert [one.line for one in language.unnamed([page])] == [1]


@pytest.mark.parametrize("name", PER_THOUSAND)
def test_vague_words_are_rare(name):
    assert round(language.per_thousand(FILES)[name], 2) <= PER_THOUSAND[name]
    assert round(language.per_thousand(TESTS)[name], 2) <= PER_THOUSAND_OF_TESTS[name]
    assert round(language.per_thousand(PAGES)[name], 2) <= PER_THOUSAND_OF_PAGES[name]


def test_no_module_has_a_name_of_the_standard_library():
    assert language.stdlib_names(FILES) == set()


def test_formatting_is_left_to_the_formatter():
    found = {
        str(path.relative_to(language.ROOT)): language.skips([path]) for path in (*FILES, *TESTS)
    }
    assert {name: skips for name, skips in found.items() if skips} == TABLES


def test_headings_of_documents_name_their_subject():
    for path in language.documents():
        for heading in re.findall(r"^#+ ([A-Za-z]+)", path.read_text(), re.M):
            assert heading.lower() not in language.OPENINGS, f"{path}: {heading}"
