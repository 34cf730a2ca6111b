"""Columns of evaluations in datasets: each is named once per layer, and follows from there."""

from __future__ import annotations

from dataclasses import fields

from app.domain.evaluation_row import EvaluationRow
from app.domain.example_texts import EvaluationFacts
from app.export import render
from app.formats import base
from app.store import evaluation_rows, export_attempts
from app.store.export_records import Problem


def test_every_field_of_a_row_has_a_column():
    assert set(evaluation_rows.COLUMNS) == {field.name for field in fields(EvaluationRow)}


def test_every_column_of_provenance_is_a_fact():
    names = {name for name, _ in base.PROVENANCE} - {"prompt_source", "sanitized"}
    assert names <= set(EvaluationFacts._fields)


def test_every_fact_comes_from_an_attempt_a_problem_or_a_run():
    problem = Problem("softmax", "tests", 1, "Model", "00", "family", None)
    of_records = {*render._of_problems([problem]), *render._of_runs([render._NO_RUN])}
    assert set(EvaluationFacts._fields) <= set(export_attempts.SCHEMA.names) | of_records
