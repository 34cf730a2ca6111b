"""From a stored attempt to a row: conversations, templates, splits, and the layouts
that trainers read.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app import formats
from app.domain import ids, prompt_templates
from app.domain.dataset import example as examples
from app.domain.dataset.attempt_rewards import SCORES
from app.domain.dataset.example import Example, Unfit
from app.domain.dataset.example_facts import EvaluationFacts, Extra
from app.domain.dataset.example_texts import ChatMessage, Dialogue, Exchange, Text, Texts
from app.domain.dataset.selection import Kind, Reasoning
from app.domain.dataset.split import split_of
from app.export.manifest import canonical
from app.export.writers import ParquetTable
from app.formats.base import column_type
from app.plugins import UnknownPluginError

ID = "0199f3c2-0000-7000-8000-00000000000{}"
FACTS = EvaluationFacts(
    evaluation_id=ID.format(1),
    verdict_id=ID.format(2),
    turn_id=ID.format(3),
    trajectory_id=ID.format(4),
    problem_id=ID.format(5),
    problem="19_ReLU",
    source_set="samples",
    level=1,
    entry_point="Model",
    reference_sha256="aa",
    family="ff",
    problem_licence="MIT",
    backend="triton",
    source_sha256="bb",
    run="r",
    model="org/m",
    model_licence=None,
    turn=1,
    device_class="cpu",
    device_name="CPU",
    baseline="eager",
    protocol="assay-1",
    status="passed",
    correct=True,
    verdict="clean",
    reviewed=False,
    speedup=2.0,
    speedup_ci_low=1.9,
    speedup_ci_high=2.1,
    measured_speedup=2.0,
    device_speedup=2.5,
    device_speedup_ci_low=2.4,
    device_speedup_ci_high=2.6,
    reference_us=2.0,
    candidate_us=1.0,
    coverage_time=None,
    coverage_count=None,
)
CODE = "class ModelNew:\n    pass\n"
ANSWER = f"<think>hm</think>Here.\n```python\n{CODE}```"


def turn(index: int, *prompts: str, answer: str = ANSWER, role: str = "user") -> Exchange:
    messages = [{"role": role, "content": text} for text in prompts]
    return Exchange.read(index, json.dumps(messages), answer.encode("utf-8", "surrogatepass"))


def built(
    *turns: Exchange,
    source: bytes = CODE.encode(),
    kind: Kind = Kind.TURN,
    reasoning: Reasoning = Reasoning.KEEP,
) -> Example:
    texts = Texts(
        reference=Text.read(b"class Model: ...\n"),
        source=Text.read(source),
        dialogue=Dialogue(turns),
        turns=len(turns),
    )
    return examples.build(texts, FACTS, kind, reasoning)


def dialogue() -> Example:
    return built(turn(0, "go", answer="one"), turn(1, "again"))


def test_a_candidate_that_came_alone_is_shown_under_our_template() -> None:
    for example in (built(), built(turn(0))):
        assert example.prompt_source == "template@2"
        assert example.history == example.prompt
        assert "class Model: ..." in example.history[0].content
        assert example.answer == f"```python\n{CODE}```"


def test_of_a_problem_by_cases_our_template_speaks_of_cases() -> None:
    problem = b"def get_cases():\n    return CASES\n"
    texts = Texts(
        reference=Text.read(problem),
        source=Text.read(CODE.encode()),
        dialogue=Dialogue(()),
        turns=0,
    )
    example = examples.build(texts, FACTS, Kind.TURN, Reasoning.KEEP)
    assert example.prompt_source == "cases_template@1"
    (asked,) = example.history
    assert "return CASES" in asked.content
    assert "`ModelNew`" in asked.content
    assert "as `Model`" not in asked.content, "there is none"


def test_a_dialogue_ends_with_its_own_answer() -> None:
    example = dialogue()
    assert [message.role for message in example.history] == ["user", "assistant", "user"]
    assert example.prompt == (ChatMessage("user", "go"),)
    assert (example.answer, example.prompt_source) == (ANSWER, "recorded")


def test_a_row_is_judged_by_the_turns_that_it_shows() -> None:
    key = "hf_" + "a1B2" * 9
    turns = [turn(0, "go"), turn(1, "\ud800"), turn(2, key), turn(3, "again", role="oracle")]
    texts = Texts(Text.read(b"class Model: ...\n"), None, Dialogue(turns), 1)
    first, second = (
        examples.build(texts._replace(turns=count), FACTS, Kind.TURN) for count in (1, 2)
    )
    assert (first.sanitized, second.sanitized) == (False, True)
    assert (len(first.history), len(second.history), second.answered) == (1, 3, (1,))
    for count, reason in (
        (3, "secret: Hugging Face token"),
        (4, "turn 3 .* has the role 'oracle'"),
    ):
        with pytest.raises(Unfit, match=reason):
            examples.build(texts._replace(turns=count), FACTS, Kind.TURN)


def test_columns_keep_their_values_where_rows_come_in_another_order(tmp_path: Path) -> None:
    table = ParquetTable(
        tmp_path / "rows.parquet", pa.schema([("one", pa.string()), ("other", pa.string())])
    )
    hashes = {table.add(row) for row in ({"one": "1", "other": "2"}, {"other": "2", "one": "1"})}
    table.close(tmp_path)
    assert len(hashes) == 1
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [{"one": "1", "other": "2"}] * 2
    with pytest.raises(ValueError, match="expected columns"):
        table.add({"one": "1"})


def test_a_single_row_has_the_first_prompt_and_the_code_alone() -> None:
    example = built(turn(0, "go", answer="one"), kind=Kind.SINGLE)
    assert (example.history, example.answer) == (
        (ChatMessage("user", "go"),),
        f"```python\n{CODE}```",
    )


def test_thoughts_are_kept_or_dropped_as_asked() -> None:
    turns = (turn(0, "go"), turn(1, "again"))
    shown = {policy: built(*turns, reasoning=policy) for policy in Reasoning}
    thoughts = {
        policy: ["<think>" in m["content"] for m in one.messages[1::2]]
        for policy, one in shown.items()
    }
    assert thoughts == {
        Reasoning.KEEP: [True, True],
        Reasoning.DROP_HISTORY: [False, True],
        Reasoning.DROP_ALL: [False, False],
    }


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ((turn(1, "again"),), "turn 0 of the conversation is not stored"),
        ((turn(0, "go"), turn(1)), "turn 1 of the conversation has no messages"),
        ((turn(0, "go", role="assistant"),), "answered twice"),
        ((turn(0, "go", role="wizard"),), "role 'wizard'"),
        ((turn(0, "go", answer=" \n"),), "answer is empty"),
        ((turn(0, "hf_" + "a1B2" * 9),), "secret: Hugging Face token"),
    ],
)
def test_a_conversation_with_a_hole_is_no_row(turns: Any, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        built(*turns)


def test_odd_characters_are_replaced_and_marked() -> None:
    example = built(turn(0, "a\ud800b", answer="c\0d"))
    assert example.sanitized
    assert "\0" not in example.answer
    json.dumps(example.messages).encode()
    assert not dialogue().sanitized


def test_marks_are_on_the_answers_of_the_turns_that_were_chosen() -> None:
    masked = replace(dialogue(), extra=Extra(train=(1,)))
    assert masked.trained == [False, False, False, True]
    assert replace(masked, extra=Extra(train=(0, 1))).trained == [False, True, False, True]
    assert dialogue().trained == [False, False, False, True]


def shown(kind: Kind) -> Example:
    extras = {
        Kind.PAIRS: Extra(why="fast_slow"),
        Kind.LABELLED: Extra(label=False),
        Kind.MASKED: Extra(train=(1,)),
        Kind.RL_PROMPTS: Extra(pass_rate=0.5, attempts=4),
        Kind.REWARDS: Extra(rewards=(2.3,) * len(SCORES), returns=(3.3,) * len(SCORES)),
    }
    example = replace(dialogue(), kind=kind, extra=extras.get(kind, Extra()))
    return (
        replace(example, rejected=ChatMessage("assistant", "slow"), rejected_facts=FACTS)
        if kind is Kind.PAIRS
        else example
    )


EVERY = [(name, kind) for name, each in formats.BUILTIN.items() for kind in each.kinds]


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_layout_gives_rows_that_its_schema_holds_and_gives_back(
    name: str, kind: Kind
) -> None:
    chosen = formats.find(name)
    row = chosen.render(shown(kind))
    if chosen.container == formats.PARQUET:
        assert row.keys() == set(chosen.schema.names)
        assert pa.RecordBatch.from_pylist([row], schema=chosen.schema).to_pylist() == [row]
    assert row.keys() == set(chosen.schema.names)
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def rendered(name: str, kind: Kind) -> dict[str, Any]:
    return formats.find(name).render(shown(kind))


def test_trl_columns() -> None:
    split = rendered("trl_sft", Kind.TURN)
    assert (len(split["prompt"]), split["completion"]) == (
        3,
        [{"role": "assistant", "content": ANSWER}],
    )
    pair = rendered("trl_preference", Kind.PAIRS)
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (ANSWER, "slow")
    assert rendered("trl_kto", Kind.LABELLED)["label"] is False
    forbidden = {
        "prompts",
        "completions",
        "completion_ids",
        "trainer_state",
        "log_extra",
        "log_metric",
        "environments",
    }
    assert not forbidden & rendered("trl_prompts", Kind.RL_PROMPTS).keys()


def test_openai_rows_have_no_extra_key_and_a_weight_on_every_answer() -> None:
    row = rendered("openai_sft", Kind.MASKED)
    assert row.keys() == {"messages"}
    assert [message.get("weight") for message in row["messages"]] == [None, 0, None, 1]
    pair = rendered("openai_preference", Kind.PAIRS)
    assert pair.keys() == {"input", "preferred_output", "non_preferred_output"}


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("axolotl", "train"),
        ("slime_sft", "step_loss_mask"),
        ("swift_sft", "loss"),
        ("tinker_sft", "trainable"),
    ],
)
def test_every_message_has_the_mark_of_its_trainer(name: str, mark: str) -> None:
    marks = [message[mark] for message in rendered(name, Kind.MASKED)["messages"]]
    assert marks == [False, False, False, True]
    assert {type(one) for one in marks} == {int if name == "slime_sft" else bool}


def test_openrlhf_answers_messages_with_messages() -> None:
    for kind in (Kind.TURN, Kind.TRAJECTORY):
        row = rendered("openrlhf_sft", kind)
        assert (len(row["input"]), row["output"]) == (3, [{"role": "assistant", "content": ANSWER}])


def test_llamafactory_alternates_and_names_its_files() -> None:
    example = replace(dialogue(), history=(ChatMessage("user", "a"), ChatMessage("tool", "b")))
    layout = formats.find("llamafactory_preference")
    assert layout.render(replace(example, rejected=ChatMessage("assistant", "x")))[
        "conversations"
    ] == [{"role": "user", "content": "a\n\nb"}]
    info = layout.documents({"train": "data/train.jsonl"})["dataset_info.json"]["kernels_dpo"]
    assert (info["file_name"], info["ranking"]) == ("data/train.jsonl", True)


def test_dr_kernel_counts_rounds_from_one_and_has_their_columns() -> None:
    row = rendered("drkernel_coldstart", Kind.TRAJECTORY)
    assert list(row) == [
        "messages",
        "uuid",
        "entry_point",
        "repo_name",
        "module_name",
        "final_speedup",
        "num_rounds",
        "original_python_code",
        "best_round",
        "timestamp",
        "conversion_mode",
        "enable_thinking",
    ]
    assert (row["num_rounds"], row["best_round"], row["enable_thinking"]) == (2, 2, True)
    assert list(rendered("drkernel_rl", Kind.RL_PROMPTS)["extra_info"]) == [
        "entry_point",
        "level",
        "module_name",
        "ops",
        "original_prompt",
        "repo_name",
        "type",
        "uuid",
    ]


def test_an_unknown_format_names_those_that_there_are() -> None:
    with pytest.raises(UnknownPluginError, match="trl_sft"):
        formats.find("trl")


@given(st.text(alphabet="`~ab\n", max_size=40))
def test_a_fence_is_longer_than_any_run_of_backticks(code: str) -> None:
    fenced = prompt_templates.fence(code)
    ticks = fenced[: fenced.index("p")]
    assert f"\n{ticks}" not in fenced[len(ticks) : -len(ticks) - 1]


@given(st.integers(0, 9))
def test_splits_are_stable_and_near_the_fraction(seed: int) -> None:
    names = [ids.sha256(b"%d" % number) for number in range(300)]
    sides = [split_of(name, seed=seed, val_fraction=0.3) for name in names]
    assert sides[:9] == [split_of(name, seed=seed, val_fraction=0.3) for name in names[:9]]
    assert math.isclose(sides.count("validation") / len(sides), 0.3, abs_tol=0.2)


def test_a_table_of_dialogues_reads_back_as_its_schema_says(tmp_path: Path) -> None:
    """Messages that rows share are stored once; hashes and readers see them where
    they are shown.
    """
    schema = formats.find("verl_sft").schema
    example = dialogue()
    rows = [formats.find("verl_sft").render(replace(example, index=index)) for index in range(5)]
    table = ParquetTable(tmp_path / "data" / "train.parquet", schema, group_rows=2)
    hashes = [table.add(row) for row in rows]
    table.close(tmp_path)
    assert pq.read_schema(table.path).equals(schema)
    assert pq.read_table(table.path).to_pylist() == rows
    assert hashes == [hashlib.sha256(canonical(row)).hexdigest() for row in rows]
    column = pq.ParquetFile(table.path).metadata.row_group(0)
    (content,) = [
        place
        for place in range(column.num_columns)
        if column.column(place).path_in_schema.endswith("content")
    ]
    assert column.column(content).encodings == ("PLAIN", "RLE", "RLE_DICTIONARY")
    said = sum(len(message["content"].encode()) for message in rows[0]["messages"])
    plain = pa.RecordBatch.from_pylist(rows[:1], schema=schema).nbytes
    assert 5 * said < table.memory_bytes < 5 * plain + 100


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [(float, pa.float64()), (float | None, pa.float64()), (int, pa.int32()), (str, pa.string())],
)
def test_facts_are_columns_with_and_without_none(annotation: object, kind: pa.DataType) -> None:
    assert column_type("speedup", annotation) == kind


def test_a_fact_that_no_column_holds_is_named() -> None:
    with pytest.raises(TypeError, match=r"fact 'claims': expected one of str, bool, int, float"):
        column_type("claims", dict[str, str])
