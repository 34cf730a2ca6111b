"""Filters in PostgreSQL: they find the rows that a plain reading of the filter
finds, each evaluation once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain import filter_fields
from app.domain import filter_language as filters
from app.domain.evaluation_row import EvaluationRow
from app.domain.filter_language import And, Compare, Everything, Expression, Not, OneOf, Or
from app.domain.verdict import Label, is_credited
from app.store import tables
from app.store.browse import candidates, paging
from app.store.evaluation import credited, evaluation_rows
from app.store.filter import filter_sql, filter_walk, rare_filters
from app.store.filter.filter_walk import Budget, Place, Walk
from app.store.postgres.database import Database
from tests.integration import dataset_seed

ORDER = (
    tables.evaluations.c.created_at,
    tables.evaluations.c.evaluation_id,
    tables.turns.c.turn_id.nulls_last(),
)
OLDEST = Walk(value=tables.evaluations.c.created_at, descending=False)


def find(database: Database, text: str) -> list[EvaluationRow]:
    with database.begin() as connection:
        condition = filter_sql.compile(filters.parse(text))
        return evaluation_rows.matching(connection, condition, 1000)


def test_an_evaluation_appears_once_though_two_turns_share_its_job(filled: Database) -> None:
    found = find(filled, "")
    assert len(found) == dataset_seed.EVALUATIONS
    assert len({row.evaluation_id for row in found}) == dataset_seed.EVALUATIONS


def test_a_shared_evaluation_is_found_by_either_of_its_runs_and_shows_the_one_that_matched(
    filled: Database,
) -> None:
    [first] = find(filled, "run = first")
    [second] = find(filled, "run = second and model = org/second and turn = 0")
    assert first.evaluation_id == second.evaluation_id
    assert (first.model, second.model) == ("org/first", "org/second")
    assert find(filled, "run = first and model = org/second") == []


def test_credited_is_one_rule_in_python_and_in_sql(filled: Database) -> None:
    labels = [*Label, None]
    condition = credited.is_credited(sa.column("correct", sa.Boolean), sa.column("label", sa.Text))
    cases = sa.values(
        sa.column("correct", sa.Boolean), sa.column("label", sa.Text), name="cases"
    ).data([(correct, label) for correct in (True, False) for label in labels])
    attempts = tables.attempts.c
    with filled.begin() as connection:
        text: sa.TextClause = sa.text(credited.is_credited_text("correct", "label"))
        for row in connection.execute(sa.select(*cases.c, condition, text).select_from(cases)):
            correct, label, found, by_text = list(row)
            assert found is by_text is is_credited(correct=correct, label=label)
        rows = connection.execute(
            sa.select(
                attempts.speedup,
                attempts.correct,
                attempts.label,
                sa.func.coalesce(credited.FASTEST, sa.false()),
            )
        ).all()
    for speedup, correct, label, fastest in rows:
        assert fastest is (speedup is not None and is_credited(correct=correct, label=label))
    assert len({fastest for *_, fastest in rows}) == 2


def test_a_hack_has_no_credited_speedup_but_a_measured_one(filled: Database) -> None:
    hacks = find(filled, "verdict = hack")
    assert len(hacks) == 7
    for row in hacks:
        assert (row.speedup, row.speedup_ci_low, row.speedup_ci_high) == (None, None, None)
        assert row.measured_speedup == 100.0
        assert row.findings == ("no_custom_kernel",)
    assert find(filled, "speedup > 10") == []
    assert len(find(filled, "measured_speedup > 10")) == 7


def test_an_unjudged_evaluation_has_no_credited_speedup(own: Database) -> None:
    with own.begin() as connection:
        connection.execute(sa.update(tables.verdicts).values(is_current=False))
    assert find(own, "correct") == [], "an evaluation without a verdict is not correct yet"
    found = find(own, "status = passed")
    assert found
    assert {row.speedup for row in found} == {None}
    assert {row.verdict for row in found} == {None}


def test_pages_follow_each_other_without_gap_or_repeat(filled: Database) -> None:
    pages: list[EvaluationRow] = []
    window: paging.Window[Place] = paging.Window(limit=7)
    with filled.begin() as connection:
        everything = rare_filters.narrowed(connection, Everything())
        while rows := candidates.page(connection, everything, window).rows:
            pages += rows
            text = candidates.place_text(candidates.place_of(rows[-1], "created_at"))
            window = replace(window, after=candidates.place_in(text, "created_at"))
    assert pages == find(filled, "")
    keys = [(row.created_at, row.evaluation_id) for row in pages]
    assert keys == sorted(keys, reverse=True)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-21_0", "2026-11-21_0199a5a4-7d61-7000-8000-000000000000"]
)
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cursor: expected"):
        candidates.place_in(text, "created_at")


def truth(expression: Expression, row: EvaluationRow) -> bool:
    """Truth of an expression for a row, by the language's description."""
    match expression:
        case Everything():
            return True
        case And(operands=operands):
            return all(truth(operand, row) for operand in operands)
        case Or(operands=operands):
            return any(truth(operand, row) for operand in operands)
        case Not(operand=operand):
            return not truth(operand, row)
        case OneOf(field=field, values=values):
            return any(value in values for value in held(field, row))
        case Compare(field=field, operator=operator, value=value):
            values = held(field, row)
            if value is None:
                return (not values) == (operator == "=")
            if operator == "!=":
                return value not in values
            return any(holds(one, operator, value) for one in values)


def held(field: str, row: EvaluationRow) -> tuple[Any, ...]:
    if field == "finding":
        return row.findings
    value = getattr(row, {"gpu": "device_class", "device": "device_name"}.get(field, field))
    return () if value is None else (value,)


def holds(one: Any, operator: str, value: Any) -> bool:
    return {
        "=": lambda: one == value,
        "<": lambda: one < value,
        "<=": lambda: one <= value,
        ">": lambda: one > value,
        ">=": lambda: one >= value,
        "~": lambda: value.lower() in one.lower(),
    }[operator]()


def values_of(name: str, found: list[EvaluationRow]) -> st.SearchStrategy[Any]:
    seen = sorted({value for row in found for value in held(name, row)})
    extra: dict[str, list[Any]] = {
        "number": [-1.5, 1e300],
        "integer": [7],
        "text": ["zzz", "%", "_", "O"],
        "boolean": [True, False],
    }
    kind = filter_fields.FIELDS[name].kind
    known = [*seen, *extra.get(kind, []), *filter_fields.FIELDS[name].choices]
    return (
        st.sampled_from(known)
        if known
        else st.just(datetime.fromisoformat("2026-01-01T00:00+00:00"))
    )


def comparisons(found: list[EvaluationRow]) -> st.SearchStrategy[Expression]:
    def build(name: str, operator: str) -> st.SearchStrategy[Expression]:
        values = values_of(name, found)
        if operator == "in":
            return st.lists(values, min_size=1, max_size=3).map(
                lambda some: OneOf(field=name, values=tuple(some))
            )
        allowed = values | st.none() if operator in ("=", "!=") else values
        return allowed.map(lambda value: Compare(field=name, operator=operator, value=value))

    pairs = [
        (name, operator)
        for name, field in filter_fields.FIELDS.items()
        for operator in filter_fields.OPERATORS[field.kind]
    ]
    return st.sampled_from(pairs).flatmap(lambda pair: build(*pair))


def trees(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        leaves,
        lambda inner: (
            inner.map(lambda one: Not(operand=one))
            | st.lists(inner, min_size=2, max_size=3).map(lambda some: And(operands=tuple(some)))
            | st.lists(inner, min_size=2, max_size=3).map(lambda some: Or(operands=tuple(some)))
        ),
        max_leaves=5,
    )


def test_postgres_agrees_with_a_plain_reading(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over attempts, where every row stands for itself: by the condition alone, by the one that is
    narrowed to the attempts of few problems and runs, and in windows.
    """
    monkeypatch.setattr(filter_walk, "FIRST", 2)  # several chunks
    monkeypatch.setattr(filter_walk, "TRIED_S", 0.0)
    monkeypatch.setattr(filter_walk, "LEAST_WINDOW", 2)
    with filled.begin() as connection:
        everything = [
            evaluation_rows.row_from(record)
            for record in connection.execute(evaluation_rows.SELECTABLE).mappings()
        ]
    assert len(everything) == dataset_seed.ATTEMPTS

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(trees(comparisons(everything)))
    def agrees(expression: Expression) -> None:
        with filled.begin() as connection:
            query = evaluation_rows.SELECTABLE.order_by(*ORDER)
            plain = connection.execute(query.where(filter_sql.compile(expression))).all()
            narrowed = rare_filters.narrowed(connection, expression)
            unknown = replace(narrowed, among=())
            by_key, in_windows = (
                filter_walk.rows(
                    connection, query, of, OLDEST, limit=len(everything), budget=Budget.of(600)
                )
                for of in (narrowed, unknown)
            )
        expected = sorted(repr(row) for row in everything if truth(expression, row))
        for found in (plain, by_key, in_windows):
            assert (
                sorted(repr(evaluation_rows.row_from(record._mapping)) for record in found)
                == expected
            )
        assert by_key == in_windows == plain

    agrees()


def test_every_field_has_a_column_and_no_value_reaches_the_text_of_the_query(
    filled: Database,
) -> None:
    marker = "x'; DROP TABLE problems; --"
    for name, field in filter_fields.FIELDS.items():
        if field.kind == "text":
            compiled = filter_sql.compile(Compare(field=name, operator="~", value=marker))
            assert "DROP" not in str(compiled)
            assert find(filled, f'{name} = "{marker}"') == []
        else:
            filter_sql.compile(Compare(field=name, operator="=", value=None))


@pytest.mark.parametrize(
    "text", ["problem ~ nothing", "level = 9", "run ~ nothing and correct", "model in (a, b)"]
)
def test_a_problem_or_run_that_does_not_exist_is_looked_for_in_the_small_tables_alone(
    filled: Database, text: str
) -> None:
    with filled.begin() as connection:
        assert rare_filters.narrowed(connection, filters.parse(text)).is_never


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("verdict = hack and finding ~ kernel", 2),
        ("verdict = hack and run ~ e", 2),
        ("verdict = clean and run ~ e", 1),
        ("correct and run ~ e", 1),
        ("finding ~ kernel and speedup > 0.1", 1),
    ],
)
def test_a_verdict_beside_few_evaluations_narrows_them(
    filled: Database, text: str, sets: int
) -> None:
    expression = filters.parse(text)
    query = evaluation_rows.SELECTABLE.order_by(*ORDER)
    with filled.begin() as connection:
        narrowed = rare_filters.narrowed(connection, expression)
        assert len(narrowed.among) == sets
        plain = connection.execute(query.where(filter_sql.compile(expression))).all()
        by_key = filter_walk.rows(connection, query, narrowed, OLDEST, limit=len(plain) + 1)
    assert by_key == plain
