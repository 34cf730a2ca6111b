"""Token-level rows hold sampled tokens behind exactly the tokens that they were sampled after."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.collection.sequences import TokenTurn, joined

FIRST = TokenTurn(
    key="0.0", model_call_id="a", prompt=[1, 2], answer=[3, 4], logprobs=[-0.1, -0.2], reward=0.5
)
SECOND = TokenTurn(
    key="0.1", model_call_id="b", prompt=[1, 2, 3, 4, 5], answer=[6], logprobs=[-0.3], reward=None
)


def test_turns_that_extend_each_other_are_one_row() -> None:
    (row,) = joined([FIRST, SECOND])
    assert row.ids == (1, 2, 3, 4, 5, 6)
    assert row.mask == (0, 0, 1, 1, 0, 1)
    assert row.logprobs == (0.0, 0.0, -0.1, -0.2, 0.0, -0.3)
    assert (row.turn_ends, row.turn_rewards, row.nodes) == ((3, 5), (0.5, None), ("0.0", "0.1"))


@pytest.mark.parametrize("prompt", [[1, 2, 9, 4, 5], [1, 2, 3, 4], [7]])
def test_a_prompt_that_is_no_extension_begins_a_row(prompt: list[int]) -> None:
    first, second = joined([FIRST, replace(SECOND, prompt=prompt)])
    assert first.ids == (1, 2, 3, 4)
    assert second.ids == (*prompt, 6)
    assert second.mask == (*[0] * len(prompt), 1)


def test_an_answer_without_a_logprob_for_every_token_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 logprobs, got 0"):
        joined([replace(SECOND, logprobs=[])])


tokens = st.lists(st.integers(0, 3), max_size=5)


@given(st.lists(st.tuples(tokens, tokens, st.booleans()), max_size=6))
def test_every_sampled_token_stands_behind_its_own_prompt_once(
    drawn: list[tuple[list[int], list[int], bool]],
) -> None:
    turns: list[TokenTurn] = []
    before: list[int] = []
    for number, (prompt, answer, goes_on) in enumerate(drawn):
        whole = [*before, *prompt] if goes_on else prompt
        logprobs = [-float(number)] * len(answer)
        turns.append(
            TokenTurn(
                key=f"0.{number}",
                model_call_id="",
                prompt=whole,
                answer=answer,
                logprobs=logprobs,
                reward=0.0,
            )
        )
        before = [*whole, *answer]
    rows = joined(turns)
    assert sum(sum(row.mask) for row in rows) == sum(len(turn.answer) for turn in turns)
    by_key = {turn.key: turn for turn in turns}
    for row in rows:
        for key, end in zip(row.nodes, row.turn_ends, strict=True):
            turn = by_key[key]
            assert list(row.ids[: end + 1]) == [*turn.prompt, *turn.answer]
