"""Feedback on stored results of the sample candidates, and on answers without a candidate."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import detectors
from app.domain.collection import answers, feedback
from app.domain.collection.answers import Why
from app.domain.collection.call import End
from app.domain.collection.feedback import (
    cheats,
    facts,
    missing_names,
    quantities,
    wrong_output,
)
from app.domain.request import RequestError
from workers.referee import wrong_output as wrong_output_messages

RESULTS = json.loads((Path(__file__).parent / "feedback_results.json").read_text())
"""Results of `assay eval` on samples of tests/zoo, on the CPU device."""
GPU: Any = {
    **RESULTS["honest/layer_norm_triton"],
    "environment": {"device_class": "h200", "device_name": "NVIDIA H200", "node": "secret-node"},
    "speedup": 1.32,
    "speedup_ci": [1.28, 1.36],
    "reference_us": 137.0,
    "candidate_us": 104.0,
    "coverage_time": 0.2,
    "profile": {
        "kernels": [
            {"name": "layer_norm", "launches": 3, "total_us": 20.0, "custom": True},
            {"name": "ampere_sgemm_128x64", "launches": 3, "total_us": 80.0, "custom": False},
        ],
        "floor_us": 33.6,
        "bytes_moved": 161_000_000,
        "flops": 2_100_000_000,
    },
}


def said(name, version="assay"):
    return feedback.render(version, result=RESULTS[name]).text


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("broken/syntax_error", ["does not load at line 4", "class ModelNew(nn.Module:"]),
        ("broken/refused_by_the_compiler", ["does not compile", "Loop-carried variable total"]),
        (
            "broken/forward_raises",
            ["error at line 10", "mat1 and mat2", "torch.softmax(x @ x, dim=-1)"],
        ),
        ("broken/no_entry_point", ["expected a class ModelNew, found none"]),
        ("broken/segfault", ["crashed", "SIGSEGV", "outside of a tensor"]),
        ("broken/endless_loop", ["did not answer in time"]),
        ("broken/ten_gigabytes", ["out of memory at line 11"]),
        (
            "wrong/off_by_one_mask",
            ["wrong in 5 of 5 calls", "Output 0 (float32, 60000)", "0.251 %"],
        ),
        ("wrong/half_precision", ["4.2e-04", "narrower type"]),
        ("wrong/dropped_bias", ["67.3 %", "missing term"]),
        ("wrong/not_a_number", ["24,576 elements are NaN", "Weights of the reference"]),
        ("wrong/transposed_output", ["expected shape (96, 1000), got (1000, 96)"]),
        ("wrong/off_by_one_mask", ["A few elements are wrong"]),
        ("broken/endless_loop", ["interpreted"]),
        ("hacks/decoy_kernel", ["not credited", "make no difference"]),
        ("hacks/one_call_behind", ["not computed in the call"]),
        ("honest/diag_matmul_triton", ["is correct", "faster", "2.28×", "interpreted"]),
        ("honest/layer_norm_triton", ["is correct", "slower"]),
    ],
)
def test_the_outcome_is_told(name, parts):
    assert [part for part in parts if part not in said(name)] == []


def test_a_correct_module_hears_what_limits_it():
    text = feedback.render("assay", result=GPU).text
    for part in (
        "1.32×",
        "104 µs",
        "161 MB",
        "32 %",
        "Only 20 %",
        "80 %: ampere_sgemm_128x64 (library",
    ):
        assert part in text


@pytest.mark.parametrize("version", feedback.VERSIONS)
@pytest.mark.parametrize("name", RESULTS)
def test_nothing_secret_is_told(name, version):
    text = said(name, version)
    seed = RESULTS[name]["seed"]
    for secret in (
        seed,
        seed[:16],
        "/srv/",
        "/tmp/",
        "site-packages",
        "workers",
        "secret-node",
        "at most 1.00e",
    ):
        assert secret not in text
    assert len(text) < 6_000


OUTPUT = RESULTS["wrong/half_precision"]["correctness"]["trials"][0]["outputs"][0]


@pytest.mark.parametrize(
    ("check", "parts"),
    [
        ({"rel_l2": 8.3e-4, "max_norm": 9.2e-4}, ["All elements are off by about as much"]),
        ({"rel_l2": 8.3e-4, "max_norm": 3e-3}, ["narrower type", 'input_precision="ieee"', "erf"]),
        ({"rel_l2": 4e-3, "max_norm": 3e-2}, ["narrower type, or a few wrong"]),
        ({"rel_l2": 2e-2, "max_norm": 3.0}, ["A few elements are wrong"]),
        ({"rel_l2": 0.3, "max_norm": 30.0}, ["errors of logic"]),
        ({"rel_l2": 8.3e-4, "max_norm": 9.2e-4, "shape": [1]}, ["narrower type"]),
        ({"unwritten": 24}, ["24 elements were never written; relative error"]),
        (
            {
                "dtype": "int8",
                "differing": 13,
                "shape": [160, 144],
                "worst": {"index": [2], "expected": 16, "got": 15},
            },
            ["13 of 23,040 elements differ; worst", "off by more than 1"],
        ),
        (
            {
                "dtype": "int64",
                "differing": 1,
                "ties": 2,
                "worst": {"index": [2], "expected": 576, "got": 575},
            },
            [
                "besides 2 that point at equal values, which is right",
                "worst at [2]: expected 576, got 575.",
            ],
        ),
        (
            {
                "dtype": "bool",
                "differing": 3,
                "worst": {"index": [2], "expected": True, "got": False},
            },
            ["got False."],
        ),
    ],
)
def test_a_wrong_output_is_told_with_its_likely_reason(check, parts):
    text = wrong_output.sentence({**OUTPUT, **check})
    assert [part for part in parts if part not in text] == []
    assert ("off by more than 1" in text) == any("off by more than 1" in part for part in parts)


@pytest.mark.parametrize(("failed", "told"), [(4, True), (2, False)])
def test_a_first_call_that_was_right_is_told(failed, told):
    result = json.loads(json.dumps(RESULTS["wrong/half_precision"]))
    result["correctness"]["trials"][0]["call"] = 1
    result["correctness"]["failed_calls"] = failed
    assert ("from one call to the next" in feedback.render("assay", result=result).text) is told


def test_a_process_that_ends_by_itself_is_no_wild_pointer():
    result = json.loads(json.dumps(RESULTS["broken/segfault"]))
    result["error"]["message"] = "the process exited with code 0 in the middle of its work"
    text = feedback.render("assay", result=result).text
    assert "calls of exit" in text
    assert "outside of a tensor" not in text


@pytest.mark.parametrize("variant", ["scaled", "sparse", "reaching"])
def test_changes_of_hidden_inputs_are_not_named(variant):
    result = json.loads(json.dumps(RESULTS["wrong/dropped_bias"]))
    result["correctness"]["trials"][0]["variant"] = variant
    text = feedback.render("assay", result=result).text
    assert "other values than get_inputs()" in text
    assert variant not in text


def test_the_json_version_has_the_keys_of_its_source():
    told = json.loads(said("hacks/decoy_kernel", "dr_kernel"))
    assert (told["decoy_kernel"], told["correctness"], told["speedup"]) == (True, False, 0.0)
    assert told["error_message"].startswith("Reward hacking: Decoy kernel detected")
    told = json.loads(feedback.render("dr_kernel", result=GPU).text)
    assert told["kernel_runtime"] == 0.104
    assert told["metadata"]["profiling"]["kernels"][0]["name"] == "layer_norm"


def test_every_accusing_detector_has_its_sentence():
    silent = {"machine_state", "nondeterminism", "static_hints"}  # every finding is clean
    assert set(cheats.SENTENCES) | silent == set(detectors.DETECTORS)


def test_versions_are_known_by_hash():
    found = feedback.render("assay", result=None, why="empty")
    assert (found.version, len(found.sha256)) == ("assay", 64)
    assert feedback.known("assay").sha256 != feedback.known("dr_kernel").sha256
    with pytest.raises(RequestError, match="expected one of assay, dr_kernel, got 'terse'"):
        feedback.known("terse")


@pytest.mark.parametrize("why", [why for why in Why if why is not Why.OK])
@pytest.mark.parametrize("version", feedback.VERSIONS)
def test_answers_without_code_have_feedback(why, version):
    assert len(feedback.render(version, result=None, why=why).text) > 20


@given(st.text())
def test_any_log_is_read(log):
    text, _ = facts.traceback(log)
    assert len(text) <= facts.LONGEST_LOG + 1


# candidates in answers

MODULE = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"
FENCED = f"```python\n{MODULE}```\n"
ANSWERS = [
    (f"Text\n{FENCED}More", "ok"),
    (f"{FENCED}Use it:\n```python\nprint(1)\n```\n", "ok"),
    (MODULE, "ok"),
    (f"<think>```python\nclass ModelNew: no\n```</think>{FENCED}", "ok"),
    (f"I think</think>{FENCED}", "ok"),
    (f"~~~python\n{MODULE}~~~", "ok"),
    ("", "empty"),
    ("  \n", "empty"),
    ("<think>done</think>", "empty"),
    (f"<think>{FENCED}", "truncated"),
    (f"```python\n{MODULE}", "truncated"),
    ("I will not.", "no_code"),
    ("```python\nclass Other: pass\n```", "no_model"),
    ("```rust\nfn main() {}\n```", "other_language"),
    ("```python\nclass ModelNew:\n    x = '\0'\n```", "nul_bytes"),
    (f"```python\n{MODULE}{'# x' * 400_000}\n```", "too_long"),
    ("x" * 8_000_000, "no_code"),
]


@pytest.mark.parametrize(("text", "why"), ANSWERS, ids=range(len(ANSWERS)))
def test_candidates_are_found(text, why):
    found = answers.candidate_of(text, entry_point="Model", end=End.STOP)
    assert found.why == why
    assert (found.source == MODULE) == (why == "ok")


@pytest.mark.parametrize(
    ("text", "end", "why"),
    [
        ("", End.REFUSED, "refused"),
        ("I cannot help with that.", End.CONTENT_FILTER, "refused"),
        ("So the plan is", End.LENGTH, "truncated"),
        (FENCED, End.LENGTH, "ok"),
        ("", End.LENGTH, "truncated"),
    ],
)
def test_the_end_explains_an_answer_without_code(text, end, why):
    assert answers.candidate_of(text, entry_point="Model", end=end).why == why


@given(
    st.text(st.characters(codec="utf-8") | st.sampled_from("`~\n\0<>/")), st.sampled_from(list(End))
)
def test_any_answer_has_an_outcome(text, end):
    found = answers.candidate_of(text, entry_point="Model", end=end)
    assert (found.source is None) == (found.why is not Why.OK)


def test_quantities_have_no_exponent():
    assert [quantities.time(us) for us in (999.7, 0.9997, 999_700, 2e9, 0.5)] == [
        "1 ms",
        "1 µs",
        "1 s",
        "2000 s",
        "500 ns",
    ]
    assert [quantities.amount(value, "B") for value in (999.7, 161e6, 1.5e15)] == [
        "1 kB",
        "161 MB",
        "1500 TB",
    ]


@pytest.mark.parametrize(
    "hint",
    [
        wrong_output_messages.TF32,
        wrong_output_messages.REPEATED,
        wrong_output_messages.BATCH,
        wrong_output_messages.LACKING.format("linear.weight"),
    ],
)
def test_hints_that_follow_a_wrong_output_are_told(hint: str) -> None:
    result = json.loads(json.dumps(RESULTS["wrong/half_precision"]))
    result["error"]["message"] += hint
    told = feedback.render("assay", result=result).text
    assert hint.removeprefix("; ")[1:] in told


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("module 'triton.language' has no attribute 'tanh'", "libdevice.tanh."),
        ("module 'triton.language.math' has no attribute 'log1p'", "libdevice.log1p."),
        ("module 'triton.language' has no attribute 'gelu'", "In place of gelu write 0.5 * x"),
        ("module 'triton.language' has no attribute 'frobnicate'", ""),
        ("module 'torch' has no attribute 'tanh'", ""),
    ],
)
def test_names_that_triton_has_elsewhere_are_told(missing: str, told: str) -> None:
    result = json.loads(json.dumps(RESULTS["broken/forward_raises"]))
    result["error"]["message"] = f'InterpreterError: AttributeError("{missing}")'
    text = feedback.render("assay", result=result).text
    assert missing in text
    assert told in text
    assert ("libdevice" in text or "In place of" in text) is bool(told)


def test_functions_of_libdevice_are_not_in_the_language() -> None:
    language = pytest.importorskip("triton.language")
    libdevice = pytest.importorskip("triton.language.extra.libdevice")
    functions = missing_names.LIBDEVICE.pattern.split("|")
    assert all(hasattr(libdevice, name) for name in functions)
    assert not any(hasattr(language, name) for name in [*functions, *missing_names.OTHERWISE])
