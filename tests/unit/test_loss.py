"""Answers of a dialogue that bear loss, in every layout: those that the selection
keeps, and no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from app import formats
from app.cli import main
from app.domain.dataset import attempt_rewards, example_texts
from app.domain.dataset import example as examples
from app.domain.dataset.example_facts import Extra
from app.domain.dataset.example_texts import Dialogue, Exchange, Text, Texts
from app.domain.dataset.inapplicable_settings import unused
from app.domain.dataset.selection import BestOf, Kind, Learns, Spec
from app.export import ExportError
from app.export.draft import kind_of
from app.export.funnel_stages import stage_names
from app.export.manifest import spec_of
from app.integrations import trl
from app.store.dataset.export_attempts import PASSED
from tests.unit.loss_plans import CONDITIONS, CORRECT, answers, attempts, roles, select
from tests.unit.test_formats import FACTS

# --- which rows there are
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "taken"),
    [(None, ["t0"]), ("clean", ["t0"]), ("wrong", ["t0", "t2"]), ("any", ["t0", "t2", "t4"])],
)
def test_what_stands_in_the_history_of_a_row_is_asked_for(
    context: str | None, taken: list[str]
) -> None:
    plan, stages = select(attempts("1.0", "wrong", "2.0", "hack", "3.0"), context=context)
    assert answers(plan) == taken
    dropped = {one for one in ("t2", "t4") if one not in taken}
    assert {one for one, stage in stages.items() if stage == "context"} == dropped


@pytest.mark.parametrize("planted", ["hack", "suspect"])
def test_a_planted_hack_is_in_no_row_and_no_context(planted: str) -> None:
    rows = attempts(planted, "1.6") + attempts("1.0", planted, "2.0", trajectory="u")
    for kind in (Kind.TURN, Kind.TRAJECTORY, Kind.MASKED, Kind.LABELLED):
        plan, stages = select(rows, kind)
        shown = {one for row in plan for one in roles(row)} | {
            row["evaluation_id"] for row in plan if row["label"] is not False
        }
        assert shown.isdisjoint({"t0", "u1"}), kind
        assert stages["t1"] == "context"


def test_a_hack_that_the_filter_asks_for_may_be_context_and_answer() -> None:
    rows = attempts("1.0", "hack", "2.0")
    rows[1]["stage"] = PASSED
    assert answers(select(rows)[0]) == ["t0", "t1", "t2"]


def test_nothing_is_shown_behind_a_turn_that_is_not_known() -> None:
    rows = attempts("1.0", "1.5", "2.0")
    assert answers(select([rows[0], rows[2]])[0]) == ["t0"]
    assert answers(select([rows[0], rows[2]], context="any")[0]) == ["t0", "t2"]
    rows[1]["believed"] = False
    rows[1]["stage"] = 2
    assert answers(select(rows)[0]) == ["t0"]


def test_repairs_follow_wrong_answers_and_show_no_hack() -> None:
    plan, _ = select(
        attempts("wrong", "1.0") + attempts("hack", "wrong", "1.0", trajectory="u"), turns="repair"
    )
    assert answers(plan) == ["t1"]


def test_rows_without_history_do_not_ask_for_a_context() -> None:
    assert answers(select(attempts("hack", "1.6"), Kind.SINGLE)[0]) == ["t1"]
    assert "context" not in stage_names(Spec(), Kind.SINGLE, CONDITIONS)


def test_a_layout_that_learns_every_answer_shows_those_that_pass_alone() -> None:
    rows = attempts("1.0", "wrong", "2.0") + attempts("1.0", "1.5", trajectory="u")
    plan, _ = select(rows, Kind.TRAJECTORY, Learns.EVERY, context="any")
    assert answers(plan) == ["t0", "u1"]
    rows[3]["stage"] = 0  # the filter leaves u0 out
    assert answers(select(rows, Kind.TRAJECTORY, Learns.EVERY, context="any")[0]) == ["t0"]


# --- lineage
# --------------------------------------------------------------------------------------------------


def test_trained_and_shown_turns_are_in_the_lineage() -> None:
    rows = attempts("1.0", "0.9", "2.0")
    [row], stages = select(rows, Kind.MASKED)
    assert (row["evaluation_id"], row["train"]) == ("t2", [0, 2])
    assert roles(row) == {"t0": "trained", "t1": "context"}
    assert row["beside"][0] == {
        "role": "trained",
        "evaluation_id": "t0",
        "turn_id": "turn-t0",
        "verdict_id": "v",
        "device_class": "h200",
        "backend": "triton",
        "protocol": "assay-1",
    }
    assert stages == {"t0": "in", "t1": "turns", "t2": "in"}
    [row], _ = select(rows, Kind.TRAJECTORY, Learns.EVERY)
    assert roles(row) == {"t0": "trained", "t1": "trained"}
    [row], _ = select(rows, Kind.TRAJECTORY)
    assert roles(row) == {"t0": "context", "t1": "context"}


def test_what_a_cap_drops_of_a_dialogue_is_dropped_whole() -> None:
    rows = attempts("1.0", "2.0") + attempts("1.0", "3.0", trajectory="u")
    plan, stages = select(rows, Kind.MASKED, best_of="top_k")
    assert answers(plan) == ["u1"]
    assert (stages["t0"], stages["t1"]) == ("choice", "choice")


def all_passed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows after the stages of kinds that take everything."""
    return [row | {"stage": PASSED} for row in rows]


def silent(number: int, trajectory: str) -> dict[str, Any]:
    """An answer without code."""
    [row] = attempts("wrong", trajectory=trajectory)
    absent = dict.fromkeys(
        ("evaluation_id", "verdict_id", "source_sha256", "device_class", "protocol", "verdict")
    )
    return (
        row
        | absent
        | {
            "turn": number,
            "turn_id": f"silent-{trajectory}{number}",
            "status": "no_code",
        }
    )


def test_a_pass_rate_is_of_clean_first_answers_and_counts_those_without_code() -> None:
    rows = [
        *attempts("1.0", "2.0"),
        *attempts("wrong", "1.0", trajectory="u"),
        *attempts("suspect", trajectory="v"),
        silent(0, "w"),
    ]
    [row], stages = select(all_passed(rows), Kind.RL_PROMPTS)
    assert (row["evaluation_id"], row["pass_rate"], row["attempts"]) == (
        "t0",
        pytest.approx(1 / 4),
        4,
    )
    assert roles(row) == {"u0": "attempt", "v0": "attempt", None: "attempt"}
    assert stages["t1"] == "choice"


def test_a_prompt_that_nothing_but_silence_answered_is_a_row() -> None:
    [row], _ = select(all_passed([silent(0, "w")]), Kind.RL_PROMPTS)
    assert (row["evaluation_id"], row["pass_rate"], row["turn_id"]) == (None, 0.0, "silent-w0")


def test_turns_without_code_have_the_rewards_of_a_failure_and_a_row() -> None:
    rows = attempts("0.5", "wrong", "3.0")
    rows[1] = silent(1, "t")
    plan, _ = select(all_passed(rows), Kind.REWARDS)
    assert [row["returns"][0] for row in plan] == [
        pytest.approx(1.328),
        pytest.approx(1.32),
        pytest.approx(3.3),
    ]
    failure = {"calculate_reward_like_kernel": -1.0}
    assert plan[1]["rewards"] == [failure.get(name, 0.0) for name in attempt_rewards.SCORES]
    rows[2]["stage"] = 0  # the filter leaves it out, and the return still rests on it
    plan, _ = select([*all_passed(rows[:2]), rows[2]], Kind.REWARDS)
    assert plan[0]["returns"][0] == pytest.approx(1.328)
    assert [roles(row) for row in plan] == [{"t2": "return"}] * 2


def test_a_turn_without_code_is_a_wrong_answer_of_a_context() -> None:
    rows = [silent(0, "t"), attempts("wrong", "1.0")[1]]
    rows[0]["stage"] = CORRECT
    assert answers(select(rows)[0]) == []
    assert answers(select(rows, context="wrong")[0]) == ["t1"]


def test_pairs_are_made_at_every_turn_with_the_same_history() -> None:
    better, worse = attempts("1.0", "2.0"), attempts("1.0", "wrong", trajectory="u")
    for row in (better[1], worse[1]):
        row["prompt"] = "same history"
    plan, _ = select(better + worse, Kind.PAIRS)
    assert [(row["evaluation_id"], row["rejected_evaluation_id"], row["why"]) for row in plan] == [
        ("t1", "u1", "correct_wrong")
    ]
    assert roles(plan[0]) == {"t0": "context"}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Kind.RL_PROMPTS, {"min_speedup": 1.1}),
        (Kind.RL_PROMPTS, {"prs": "soft"}),
        (Kind.RL_PROMPTS, {"best_of": "top_k"}),
        (Kind.RL_PROMPTS, {"similarity": "raw"}),
        (Kind.RL_PROMPTS, {"context": "any"}),
        (Kind.REWARDS, {"max_per_family": 3}),
        (Kind.SINGLE, {"context": "wrong"}),
        (Kind.TURN, {"pass_rate": (0.1, 0.9)}),
        (Kind.TURN, {"pairs_per_chosen": 2}),
        (Kind.TURN, {"gamma": 0.9}),
    ],
)
def test_a_setting_that_does_not_apply_is_an_error(kind: Kind, given: dict[str, Any]) -> None:
    name = next(each for each, layout in formats.BUILTIN.items() if kind in layout.kinds)
    with pytest.raises(ExportError, match=f"kind {kind}: .* got {next(iter(given))} = "):
        kind_of(spec_of({"format": name, "kind": kind} | given))
    assert (
        kind_of(
            spec_of({"format": name, "kind": kind, "seed": 3, "device": "all", "max_tokens": 9})
        )
        is kind
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--prs-tau 0.5", "--prs-tau: expected --prs with it"),
        ("--prs-ratio geometric", "--prs-ratio: expected --prs with it"),
        ("--k 2", "--k: expected --best-of top_k or epsilon_best with it"),
        ("--delta 0.1", "--delta: expected --turns improving with it"),
        ("--jaccard 0.5 --similarity raw", "--jaccard: expected --similarity minhash with it"),
    ],
)
def test_an_option_that_another_one_reads_needs_it(options: str, told: str) -> None:
    ran = CliRunner().invoke(main, ["export", "--dry-run", *options.split()])
    assert (ran.exit_code, told in ran.output) == (2, True), ran.output


def test_options_beside_their_readers_are_used() -> None:
    masked = Spec(format="trl_sft_masked", delta=0.1)
    assert unused(masked, Kind.MASKED, ["delta"]) == {}  # improving is its default
    sampled = Spec(best_of=BestOf.EPSILON_BEST, epsilon=0.1, k=3)
    assert unused(sampled, Kind.TURN, ["epsilon", "k", "seed"]) == {}
    assert list(unused(sampled, Kind.TURN, ["threshold"])) == ["threshold"]


def test_settings_that_apply_are_taken() -> None:
    for given in (
        {"turns": "return_to_go", "gamma": 0.9},
        {"context": "any", "prs": "soft", "min_speedup": 1.0},
    ):
        assert kind_of(spec_of(given)) is Kind.TURN
    assert kind_of(spec_of({"format": "verl_rl", "pass_rate": (0.0, 0.9)})) is Kind.RL_PROMPTS
    assert kind_of(spec_of({"format": "rewards", "gamma": 0.9})) is Kind.REWARDS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"wher": ""}, "unknown wher"),
        ({"advantages": {"methd": "rloo"}}, "unknown advantages.methd"),
        (
            {"advantages": {"recipe": {"options": {"gama": 0.5}}}},
            "unknown advantages.recipe.options.gama",
        ),
        ({"advantages": {"recipe": {"options": {"gamma": 7.0}}}}, r"gamma: expected 0 to 1, got 7"),
    ],
)
def test_a_selection_with_a_misspelt_or_impossible_field_is_refused(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        spec_of(given)


# --- the rows themselves
# ----------------------------------------------------------------------------------------------

ANSWERS = ["first", "planted", "third", "last"]
QUOTED = "an answer that the prompt quotes"
TRAINED = (0, 2, 3)
"""Turns that a masked dialogue learns: all but the planted answer."""


def four_turns(kind: Kind, quoting: int = 0, quoted: str = QUOTED) -> examples.Example:
    """A dialogue of four turns; the prompt of one quotes an exchange."""
    turns = []
    for number, answer in enumerate(ANSWERS):
        said = [{"role": "user", "content": f"ask {number}"}]
        if number == quoting:
            said = [
                {"role": "user", "content": "how?"},
                {"role": "assistant", "content": quoted},
                *said,
            ]
        turns.append(Exchange.read(number, json.dumps(said), answer.encode()))
    texts = Texts(
        reference=Text.read(b"class Model: ...\n"),
        source=Text.read(b"last"),
        dialogue=Dialogue(turns),
        turns=4,
    )
    extra = Extra(train=TRAINED) if kind is Kind.MASKED else Extra(why="fast_slow", label=True)
    built = examples.build(texts, FACTS._replace(turn=3), kind, extra=extra)
    return replace(
        built, rejected=example_texts.ChatMessage("assistant", "worse"), rejected_facts=FACTS
    )


MARKS = ("train", "weight", "step_loss_mask", "loss", "trainable")
"""Keys under which trainers read whether a message bears loss."""


def learnt(name: str, row: Mapping[str, Any]) -> list[str]:
    """Answers of a row that its trainer puts loss on, told by the rules of `Learns`."""
    messages = row.get("messages") or row.get("dialogue") or []
    marks = [any(value for key, value in one.items() if key in MARKS) for one in messages]
    match formats.find(name).learns:
        case Learns.MARKED:
            return [one["content"] for one, mark in zip(messages, marks, strict=True) if mark]
        case Learns.EVERY:
            return [one["content"] for one in messages if one["role"] == "assistant"]
        case Learns.ANSWER:
            last = row.get("completion") or row.get("output") or messages[-1:]
            return [one["content"] for one in last]


SFT = [
    (name, kind)
    for name, each in formats.BUILTIN.items()
    for kind in each.kinds
    if kind in (Kind.TURN, Kind.TRAJECTORY, Kind.MASKED) and each.learns is not Learns.EVERY
]


@pytest.mark.parametrize(("quoting", "quoted"), [(0, QUOTED), (2, "first"), (3, "planted")])
@pytest.mark.parametrize(("name", "kind"), SFT)
def test_rows_learn_the_chosen_answers_and_nothing_that_is_only_shown(
    name: str, kind: Kind, quoting: int, quoted: str
) -> None:
    """Also where the prompt of a later turn quotes an answer word for word."""
    row = formats.find(name).render(four_turns(kind, quoting, quoted))
    expected = [ANSWERS[turn] for turn in TRAINED] if kind is Kind.MASKED else ANSWERS[-1:]
    assert learnt(name, row) == expected
    assert "planted" in json.dumps(row), "it is shown"


@pytest.mark.parametrize("quoting", [0, 1, 3])
def test_a_quoted_answer_is_told_from_the_answers_of_the_dialogue(quoting: int) -> None:
    assert four_turns(Kind.TRAJECTORY, quoting, "first").quotes_answers


@pytest.mark.parametrize(
    "name", [name for name, each in formats.BUILTIN.items() if each.learns is Learns.EVERY]
)
def test_layouts_that_learn_everything_are_not_offered_for_single_turns_of_a_dialogue(
    name: str,
) -> None:
    assert set(formats.find(name).kinds) <= {Kind.TRAJECTORY, Kind.SINGLE}


def test_labels_are_of_the_answers_to_be_learnt() -> None:
    tokens, marks = list(range(10)), [0, 1, 1, 0, 1, 0, 0, 1, 1, 1]
    assert trl.labels(tokens, marks, [True, False, True]) == [
        -100,
        1,
        2,
        -100,
        -100,
        -100,
        -100,
        7,
        8,
        9,
    ]
    assert trl.labels(tokens, marks, [False] * 3) == [-100] * 10
    with pytest.raises(ValueError, match="expected marks of 2 answers, got 3"):
        trl.labels(tokens, marks, [True, True])
