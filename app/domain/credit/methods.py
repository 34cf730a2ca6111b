"""Methods: which turns form a group, which score is compared, and the rule within the group."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from app.domain.credit import rules
from app.domain.credit.returns import Shaping, check_gamma, returns_to_go, shaped
from app.domain.credit.tokens import whitened
from app.domain.credit.turns import Credit, CreditError, Dropped, Turn, by_trajectory


class Grouping(StrEnum):
    """Rows that share a baseline."""

    PROMPT_TURN = "prompt and turn"
    """Turns of the same index, of all trajectories of a prompt."""
    PROMPT = "prompt"
    BATCH = "batch"


class Score(StrEnum):
    """Value compared with the baseline."""

    RETURN = "return-to-go"
    REWARD = "reward"
    """Reward of the turn alone: later turns give it no credit."""
    TRAJECTORY = "trajectory return"
    """Return of the first turn.  One row per trajectory; its advantage goes to all of its turns."""


class Alone(StrEnum):
    """Advantage of a row without others in its group."""

    SCORE = "score"
    """Its score, as with a baseline of 0.  Keeps leave-one-out unbiased: the number
    of others does not depend on it.
    """
    ZERO = "zero"
    """No gradient.  Scales the expected gradient by the chance not to be alone."""
    REFUSE = "refuse"
    """CreditError."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """An advantage estimator."""

    about: str
    """Formula and source."""
    grouping: Grouping
    score: Score
    rule: rules.Rule
    alone: Alone = Alone.SCORE
    scaled: bool = False
    """True if its reference divides the score of a lone row by 1 + ε."""
    whitened: bool = False
    """True if the batch's advantages are standardised over tokens afterwards."""


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """Options common to all methods.  Raises CreditError for a discount outside 0 to 1."""

    gamma: float = 1.0
    """Discount between turns; tokens within a turn are not discounted."""
    shaping: Shaping = Shaping.NONE
    alone: Alone | None = None
    """None: as the method's reference."""
    parameters: rules.Parameters = field(default_factory=rules.Parameters)

    def __post_init__(self) -> None:
        check_gamma(self.gamma)


_TURN, _PROMPT, _BATCH = Grouping.PROMPT_TURN, Grouping.PROMPT, Grouping.BATCH
_OUTCOME = Score.TRAJECTORY

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "trloo": Method(
            about="A = G − mean of the others' G at the same turn; Dr. Kernel eq. 5",
            grouping=_TURN,
            score=Score.RETURN,
            rule=rules.leave_one_out,
        ),
        "grpo_turn": Method(
            about=(
                "A = G − mean G at the same turn, no std; Dr. Kernel eq. 3, KernelGYM's multi-turn"
                " `grpo`"
            ),
            grouping=_TURN,
            score=Score.RETURN,
            rule=rules.mean,
        ),
        "grpo_turn_independent": Method(
            about=(
                "A = r − mean r over all turns of the prompt; KernelGYM's `turn_independent_grpo`"
            ),
            grouping=_PROMPT,
            score=Score.REWARD,
            rule=rules.mean,
        ),
        "erloo": Method(
            about=(
                "A = G − mean of all other G of the prompt, other turns of the same trajectory"
                " included; KernelGYM"
            ),
            grouping=_PROMPT,
            score=Score.RETURN,
            rule=rules.leave_one_out,
        ),
        "erloo_normalised": Method(
            about="`erloo` over the std of the others; KernelGYM's `erloo_norm`",
            grouping=_PROMPT,
            score=Score.RETURN,
            rule=rules.leave_one_out_standardised,
        ),
        "reinforce": Method(
            about="A = (G − batch mean) / (batch std + ε); KernelGYM's `reinforce`",
            grouping=_BATCH,
            score=Score.RETURN,
            rule=rules.standardised,
            scaled=True,
        ),
        "reinforce_plus_plus": Method(
            about=(
                "A = G whitened over the batch's tokens; arXiv 2501.03262, verl (tokens"
                " undiscounted)"
            ),
            grouping=_BATCH,
            score=Score.RETURN,
            rule=rules.plain,
            whitened=True,
        ),
        "reinforce_plus_plus_baseline": Method(
            about=(
                "A = R − mean per prompt, whitened over the batch's tokens; arXiv 2501.03262, verl"
            ),
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.mean,
            whitened=True,
        ),
        "returns": Method(
            about="A = G, no baseline: REINFORCE (Williams 1992)",
            grouping=_BATCH,
            score=Score.RETURN,
            rule=rules.plain,
        ),
        "grpo": Method(
            about="A = (R − mean) / (std + ε) per prompt; arXiv 2402.03300, verl `grpo`",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.standardised,
            scaled=True,
        ),
        "grpo_no_std": Method(
            about="A = R − mean per prompt; Dr. GRPO, arXiv 2503.20783",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.mean,
        ),
        "rloo": Method(
            about=(
                "A = R − mean of the others; arXiv 2402.14740, verl `rloo` (alone: its score;"
                " SkyRL, TRL: zero)"
            ),
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.leave_one_out,
        ),
        "opo": Method(
            about="A = R − token-weighted mean; arXiv 2505.23585",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.token_weighted,
        ),
        "grpo_passk": Method(
            about=(
                "A = (best − second) / (std + ε) for the best; arXiv 2503.19595, verl `grpo_passk`"
            ),
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.best_only_standardised,
            alone=Alone.REFUSE,
        ),
        "grpo_passk_no_std": Method(
            about="A = best − second for the best; arXiv 2503.19595",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.best_only,
            alone=Alone.REFUSE,
        ),
        "maxrl": Method(
            about="A = (R − mean) / (mean + ε); MaxRL, SkyRL `maxrl`",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.mean_normalised,
        ),
        "asymre": Method(
            about="A = R − (mean + shift), shift −0.1; arXiv 2506.20520",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.shifted_mean,
        ),
        "opmd": Method(
            about="A = R − mean; Trinity-RFT `opmd`",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.mean,
        ),
        "opmd_log_mean_exp": Method(
            about="A = R − τ·log mean exp(R/τ); Trinity-RFT `opmd` with `logavgexp`",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.log_mean_exp,
        ),
        "red_drop": Method(
            about=(
                "Random rows below the mean dropped until balanced, A = R − mean of the rest; arXiv"
                " 2509.24203"
            ),
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.balanced,
        ),
        "red_drop_normalised": Method(
            about=(
                "`red_drop` over the population std of the rest; Trinity-RFT `rec` with"
                " `std_normalize`"
            ),
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.balanced_standardised,
            scaled=True,
        ),
        "red_weight": Method(
            about="A·exp(A / temperature), A = R − mean; arXiv 2509.24203",
            grouping=_PROMPT,
            score=_OUTCOME,
            rule=rules.exponentially_weighted,
        ),
    }
)


def method_of(name: str) -> Method:
    """Method of that name.  Raises CreditError."""
    found = METHODS.get(name)
    if found is None:
        raise CreditError(f"unknown method {name!r}; expected one of {', '.join(METHODS)}")
    return found


def advantages(
    turns: Sequence[Turn],
    method: str,
    options: MethodOptions | None = None,
    *,
    outside: Container[Turn] = (),
) -> list[Credit]:
    """Credit of every turn, in the order of `turns`.

    Turns without a score (Dropped.MISSING) and turns that are not trainable (Dropped.MASKED, reward
    0) leave their group before any baseline is computed.  So do turns named by `outside`, with
    rewards that still count in the returns of earlier turns.  Raises CreditError for an unknown
    method, a repeated position, or a group of one where the method refuses it.
    """
    chosen, options = method_of(method), options or MethodOptions()
    found: dict[Turn, Credit] = {}
    entries: list[_Entry] = []
    for members in by_trajectory(turns).values():
        for turn, score in zip(members, _scores(members, chosen, options), strict=True):
            dropped = (
                Dropped.MISSING if score is None else None if turn.trainable else Dropped.MASKED
            )
            found[turn] = Credit(turn=turn, score=score, advantage=None, dropped=dropped)
        inside = [turn for turn in members if found[turn].dropped is None and turn not in outside]
        entries += _entries([found[turn] for turn in inside], chosen)
    values = _within_groups(entries, chosen, options)
    if chosen.whitened:
        values = whitened(values, [entry.row.tokens for entry in entries])
    for entry, value in zip(entries, values, strict=True):
        for turn in entry.turns:
            found[turn] = replace(found[turn], advantage=value)
    return [found[turn] for turn in turns]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """Row of a group, and the turns that get its advantage."""

    group: Hashable
    row: rules.GroupScore
    turns: tuple[Turn, ...]


def _scores(members: Sequence[Turn], method: Method, options: MethodOptions) -> list[float | None]:
    """Scores of one trajectory's turns, in order; None where missing."""
    rewards = [turn.reward if turn.trainable else 0.0 for turn in members]
    values = shaped(rewards, options.gamma, options.shaping)
    if method.score is not Score.REWARD:
        values = returns_to_go(values, options.gamma)
    return values[:1] * len(values) if method.score is Score.TRAJECTORY else values


def _entries(scored: Sequence[Credit], method: Method) -> list[_Entry]:
    """Rows of one trajectory: one per turn, or one with the tokens of all."""
    if method.score is not Score.TRAJECTORY:
        return [_entry([one], method) for one in scored]
    return [_entry(scored, method)] if scored else []


def _entry(scored: Sequence[Credit], method: Method) -> _Entry:
    first = scored[0].turn
    key = f"{first.group}:{first.trajectory}:{first.index}"
    groups: dict[Grouping, Hashable] = {
        Grouping.PROMPT_TURN: (first.group, first.index),
        Grouping.PROMPT: first.group,
        Grouping.BATCH: None,
    }
    return _Entry(
        group=groups[method.grouping],
        row=rules.GroupScore(
            score=scored[0].score or 0.0, tokens=sum(one.turn.tokens for one in scored), key=key
        ),
        turns=tuple(one.turn for one in scored),
    )


def _within_groups(
    entries: Sequence[_Entry], method: Method, options: MethodOptions
) -> list[float]:
    """Advantages of all rows, each from its group."""
    groups: dict[Hashable, list[int]] = {}
    for at, entry in enumerate(entries):
        groups.setdefault(entry.group, []).append(at)
    found = [0.0] * len(entries)
    for group, members in groups.items():
        rows = [entries[at].row for at in members]
        values = (
            method.rule(rows, options.parameters)
            if len(rows) > 1
            else [_alone(group, rows[0], method, options)]
        )
        for at, value in zip(members, values, strict=True):
            found[at] = value
    return found


def _alone(group: Hashable, row: rules.GroupScore, method: Method, options: MethodOptions) -> float:
    """Advantage of a row without others."""
    match options.alone or method.alone:
        case Alone.ZERO:
            return 0.0
        case Alone.SCORE:
            return row.score / (1 + options.parameters.epsilon) if method.scaled else row.score
        case Alone.REFUSE:
            raise CreditError(
                f"group {group!r}: expected two rows or more, got one (`alone` says what one gets)"
            )
