"""Columns of evaluations in datasets: each is named once per layer, and follows from there."""

from __future__ import annotations

from dataclasses import fields

from app.domain.dataset.example_facts import INTERNAL, EvaluationFacts
from app.domain.evaluation_row import EvaluationRow
from app.export import render
from app.formats import base
from app.store.dataset import export_attempts
from app.store.dataset.export_records import Problem
from app.store.evaluation import evaluation_rows


def test_every_field_of_a_row_has_a_column():
    assert set(evaluation_rows.COLUMNS) == {field.name for field in fields(EvaluationRow)}


COLUMNS = """
prompt_source string, sanitized bool, problem string, source_set string, level int32,
entry_point string, family string, backend string, run string, model string, turn int32,
status string, verdict string, reviewed bool, speedup double, speedup_ci_low double,
speedup_ci_high double, device_speedup double, device_speedup_ci_low double,
device_speedup_ci_high double, reference_us double, candidate_us double, coverage_time double,
baseline string, device_class string, device_name string, protocol string,
reference_sha256 string, source_sha256 string, trajectory_id string, evaluation_id string,
problem_licence string, model_licence string
"""


def test_columns_of_datasets_keep_their_order_and_types():
    listed = [tuple(each.split()) for each in COLUMNS.replace("\n", " ").split(",")]
    assert [(name, str(kind)) for name, kind in base.PROVENANCE] == listed
    assert set(EvaluationFacts._fields) >= INTERNAL


def test_every_fact_comes_from_an_attempt_a_problem_or_a_run():
    problem = Problem("softmax", "tests", 1, "Model", "00", "family", None)
    of_records = {*render._of_problems([problem]), *render._of_runs([render._NO_RUN])}
    assert set(EvaluationFacts._fields) <= set(export_attempts.SCHEMA.names) | of_records
