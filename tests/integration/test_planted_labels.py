"""Long dialogues with everything that must bear no loss in their middle: no layout
marks it as to be learnt.

Hacks, wrong answers, suspects, answers without code, failed evaluations and repeated
answers stand between right ones. `test_labels` runs the trainers' own code over shorter
dialogues, and TRL's over these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import export, formats
from app.domain.dataset.selection import Context, Kind, Learns
from app.domain.source.near_duplicates import Similarity
from app.domain.trajectory import Message
from app.embedded import Services
from app.export import Spec
from app.export.writers import rows_of
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from tests.conftest import fresh
from tests.integration import dataset_seed, tiny_trainer
from tests.integration.test_labels import files, trl_labels

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

Make = Callable[..., Path]
DIALOGUES = (
    {"a0": "slow", "a1": "hack", "a2": "incorrect", "a3": "no_code", "a4": "suspect", "a5": "fast"},
    {
        "b0": "compile_error",
        "b1": "fault",
        "b2": "slow",
        "b2 again": "slow",
        "b4": "hack",
        "b5": "fast",
    },
    {"c0": "hack", "c1": "fast", "c2": "hack", "c3": "invalid", "c4": "slow"},
    {"d0": "fast", "d1": "hack", "d2": "no_code"},
    {"e0": "slow", "e1": "fast", "e2": "slow"},
    {"g0": "fast", "g1": "slow"},
    {"f0": "hack", "f1": "fast"},
)
"""Name → outcome; `again`: the same answer once more.  The last dialogue is on the
first one's problem.
"""
PROBLEMS = len(DIALOGUES) - 1
QUOTES = {"g0"}
"""Answers to a prompt that quotes an answer of another dialogue, as windowed contexts do."""
OUTCOMES = {
    name.split()[0]: outcome for dialogue in DIALOGUES for name, outcome in dialogue.items()
}
GOOD = {name for name, outcome in OUTCOMES.items() if outcome in ("slow", "fast")}
AFTER_BEST = {"c4", "e2", "g1"}
"""Right answers that follow a faster one: marks end with the best."""
BEFORE = {
    name: {OUTCOMES[each.split()[0]] for each in list(dialogue)[:place]}
    for dialogue in DIALOGUES
    for place, name in enumerate(dialogue)
}
"""Outcomes of the answers before each answer."""
RIGHT = {"slow", "fast"}
HISTORIES = {
    Context.ANY: {*OUTCOMES.values()},
    Context.WRONG: RIGHT | {"incorrect", "compile_error", "no_code"},
    Context.CLEAN: RIGHT,
}


def answer(name: str) -> str:
    if OUTCOMES[name] == "no_code":
        return f"I would tile, name = '{name}'."
    return f"Here.\n```python\n{dataset_seed.code(name)}```"


QUOTED = Message(role="assistant", content="Here.\n```python\nname = 'quoted'\n```")


def _fill(database: Database) -> None:
    for number, dialogue in (
        (place % PROBLEMS, dialogue) for place, dialogue in enumerate(DIALOGUES)
    ):
        with database.begin() as connection:
            stored = {
                name: dataset_seed.evaluate(
                    connection,
                    dataset_seed.problem(number),
                    dataset_seed.code(name).encode(),
                    outcome,
                )
                for name, outcome in dialogue.items()
                if outcome in dataset_seed.KINDS and not name.endswith("again")
            }
            [problem_id] = {one.problem_id for one in stored.values()}
            told = []
            for place, (name, outcome) in enumerate(dialogue.items()):
                text = answer(name.split()[0])
                job_id = _failed(connection, number, name) if outcome == "fault" else None
                one = dataset_seed.turn((f"ask {place}",), text, stored.get(name.split()[0]))
                if name in QUOTES:
                    one = replace(one, messages=(*one.messages, QUOTED, *one.messages))
                told.append(one if job_id is None else replace(one, job_id=job_id))
            dataset_seed.trajectories.add(
                connection, problem_id=problem_id, backend="triton", turns=told
            )


def _failed(connection: Any, number: int, name: str) -> Any:
    """A job that the service failed to evaluate."""
    source = dataset_seed.code(name).encode()
    job_id, _ = dataset_seed.queued(connection, dataset_seed.problem(number), source)
    lease = leases.claim(connection, job_id, "test", 60.0)
    assert lease is not None
    assert leases.fail(connection, lease, "test", "as the test wants")
    assert jobs.lock(connection, [job_id]) == {job_id: "failed"}
    return job_id


@pytest.fixture(scope="module")
def make(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    root = tmp_path_factory.mktemp("planted")
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        _fill(database)

        def one(name: str, kind: Kind, context: Context) -> Path:
            folder = root / f"{name}-{kind}-{context}"
            shown: dict[str, Any] = {} if kind is Kind.SINGLE else {"context": context}
            spec = Spec(
                format=name, kind=kind, similarity=Similarity.RAW, val_fraction=0.0, **shown
            )
            if not folder.exists():  # several tests read it
                export.export(database, spec, folder)
            return folder

        yield one
        database.dispose()


def _contents(messages: Any) -> list[str]:
    return [messages] if isinstance(messages, str) else [one["content"] for one in messages]


def _marked(mark: str) -> Callable[[Any], list[str]]:
    def told(row: Any) -> list[str]:
        messages = row.get("messages") or row.get("dialogue")
        return [one["content"] for one in messages if one["role"] == "assistant" and one.get(mark)]

    return told


LOSS: dict[str, Callable[[Any], list[str]]] = {
    "trl_sft": lambda row: _contents(row["completion"]),
    "trl_prompt_completion": lambda row: _contents(row["completion"]),
    "openrlhf_sft": lambda row: _contents(row["output"]),
    "llamafactory_sft": lambda row: _contents(row["messages"][-1:]),
    "trl_sft_masked": _marked("train"),
    "verl_sft_masked": _marked("train"),
    "axolotl": _marked("train"),
    "openai_sft": _marked("weight"),
    "slime_sft": _marked("step_loss_mask"),
    "swift_sft": _marked("loss"),
    "tinker_sft": _marked("trainable"),
    "verl_sft": lambda row: [
        one["content"] for one in row["messages"] if one["role"] == "assistant"
    ],
    "drkernel_coldstart": lambda row: [
        one["content"] for one in row["messages"] if one["role"] == "assistant"
    ],
}
"""Layout → texts of a row that bear loss, as the section Loss of app/export/README.md has it."""
EVERY_ANSWER = ("verl_sft", "drkernel_coldstart")
LAYOUTS = [
    *((name, Kind.TRAJECTORY) for name in LOSS),
    *((name, Kind.TURN) for name in LOSS if name not in EVERY_ANSWER),
    *((name, Kind.MASKED) for name in LOSS if formats.find(name).learns is Learns.MARKED),
    *((name, Kind.SINGLE) for name in LOSS if name != "drkernel_coldstart"),
]


def names(text: str) -> list[str]:
    return re.findall(r"name = '(\w+)'", text)


@pytest.mark.parametrize("context", list(Context))
@pytest.mark.parametrize(("name", "kind"), LAYOUTS)
def test_right_answers_alone_bear_loss(make: Make, name: str, kind: Kind, context: Context) -> None:
    rows = [row for file in files(make(name, kind, context)) for row in rows_of(Path(file))]
    learnt = [found for row in rows for text in LOSS[name](row) for found in names(text)]
    assert rows
    assert set(learnt) <= GOOD
    if kind in (Kind.TURN, Kind.MASKED):
        shown = {one for one in GOOD if BEFORE[one] <= HISTORIES[context]}
        assert sorted(learnt) == sorted(shown - AFTER_BEST if kind is Kind.MASKED else shown)


@pytest.mark.parametrize(
    "name",
    ["trl_preference", "openrlhf_preference", "llamafactory_preference", "openai_preference"],
)
def test_chosen_answers_are_right(make: Make, name: str) -> None:
    rows = [
        row for file in files(make(name, Kind.PAIRS, Context.ANY)) for row in rows_of(Path(file))
    ]
    assert rows
    for row in rows:
        chosen = row.get("chosen") or row.get("preferred_output")
        messages = [chosen] if isinstance(chosen, (str, dict)) else chosen
        last = messages[-1]
        assert set(names(last if isinstance(last, str) else last["content"])) <= GOOD


@pytest.mark.parametrize("name", ["trl_kto", "llamafactory_kto"])
def test_labels_follow_the_outcome_and_faults_have_none(make: Make, name: str) -> None:
    found = {}
    for file in files(make(name, Kind.LABELLED, Context.ANY)):
        for row in rows_of(Path(file)):
            answered = row["completion"][-1] if name == "trl_kto" else row["messages"][-1]
            [one] = names(answered["content"])
            found[one] = row["label"]
    assert {one for one, label in found.items() if label} == GOOD
    assert not {"fault", "invalid"} & {OUTCOMES[one] for one in found}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("trl_sft", Kind.TURN), ("trl_sft", Kind.TRAJECTORY), ("trl_sft_masked", Kind.MASKED)],
)
def test_trl_learns_right_answers_alone(make: Make, tmp_path: Path, name: str, kind: Kind) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("trl", minversion="1.0")
    from app.integrations import trl

    tokenizer = tiny_trainer.tokenizer(generation=name == "trl_sft_masked")
    folder = make(name, kind, Context.ANY)
    rows = datasets.load_dataset("parquet", data_files=files(folder), cache_dir=str(tmp_path))[
        "train"
    ]
    rows = trl.masked(rows, tokenizer) if name == "trl_sft_masked" else rows
    learnt = [one for text in trl_labels(rows, tokenizer, tmp_path) for one in names(text)]
    assert set(learnt) <= GOOD
    if kind is not Kind.TRAJECTORY:
        assert sorted(learnt) == sorted(GOOD - AFTER_BEST if kind is Kind.MASKED else GOOD)
