from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta

import flask
import pytest

from app.web import formatting, jinja_filters, table_export


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0 µs"),
        (0.412, "412 ns"),
        (57.12, "57.1 µs"),
        (999.99, "1000 µs"),
        (1250.0, "1.25 ms"),
        (2_500_000.0, "2.50 s"),
        (-3.0, "-3.00 µs"),
        (1e300, "1e+294 s"),
    ],
)
def test_durations(value: float | None, shown: str) -> None:
    assert formatting.duration_us(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0123, "0.012×"),
        (0.92, "0.92×"),
        (1.314, "1.31×"),
        (41.04, "41.0×"),
        (310, "310×"),
        (4e-5, "4e-05×"),
        (1e300, "1e+300×"),
        (0.0, "0×"),
    ],
)
def test_ratios(value: float | None, shown: str) -> None:
    assert formatting.ratio(value) == shown


def test_intervals_name_the_unit_once() -> None:
    assert formatting.interval(1.274, 1.351) == "1.27–1.35×"
    assert formatting.interval(None, 1.0) == "–"


def test_an_interval_that_says_nothing_says_so() -> None:
    assert formatting.interval(2e-11, 4.7e9) == "wider than 1000×"
    assert formatting.interval(0.0, 4.0) == "wider than 1000×"
    assert formatting.interval(0.5, 400.0) == "0.50–400×"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0 s"), (89, "89 s"), (90, "1 min"), (5399, "89 min"), (5400, "1 h"), (129_600, "1 d")],
)
def test_spans(seconds: int, shown: str) -> None:
    assert formatting.span(timedelta(seconds=seconds)) == shown


def test_ago_counts_from_now() -> None:
    now = datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert formatting.ago(now - timedelta(minutes=3), now) == "3 min ago"


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (512, "512 B"), (4301, "4.2 KiB"), (10 << 30, "10.0 GiB")]
)
def test_sizes(value: int | None, shown: str) -> None:
    assert formatting.size_bytes(value) == shown


def test_shares_beyond_reading_have_an_exponent() -> None:
    assert formatting.percent(1e300) == "1e+302 %"
    assert formatting.percent(10.98) == "1098.0 %"
    assert formatting.percent(0.0005) == "0.1 %"
    assert formatting.percent(0.00032) == "0.032 %"
    assert formatting.percent(-0.00032) == "-0.032 %"
    assert formatting.percent(1e-17) == formatting.percent(0.0) == "0.0 %"


def test_names_with_numbers_sort_by_their_values() -> None:
    names = ["coder-70b", "coder-7b", "coder-14b", "coder"]
    assert sorted(names, key=formatting.by_numbers) == [
        "coder",
        "coder-7b",
        "coder-14b",
        "coder-70b",
    ]


def test_cells_with_parts_are_json() -> None:
    answer = table_export.answer(
        "csv", "hours", [{"hour": 3, "statuses": {"passed": 1}, "names": ("a",)}]
    )
    [_, row] = csv.reader(answer.get_data(as_text=True).splitlines())
    assert [json.loads(cell) for cell in row] == [3, {"passed": 1}, ["a"]]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "$0.00"),
        (0.0042, "$0.0042"),
        (12.3, "$12.30"),
        (1234.5, "$1\u202f234.50"),
    ],
)
def test_dollars(value: float | None, shown: str) -> None:
    assert formatting.usd(value) == shown


def test_a_document_shows_quotes_and_letters_as_they_are() -> None:
    with flask.Flask(__name__).app_context():
        shown = jinja_filters.document({"role": "user", "content": "the model's <ü> \ud800"})
    assert shown.splitlines()[1:] == [
        " &#34;role&#34;: &#34;user&#34;,",
        " &#34;content&#34;: &#34;the model&#39;s &lt;ü&gt; \ufffd\ufffd\ufffd&#34;",
        "}",
    ]
