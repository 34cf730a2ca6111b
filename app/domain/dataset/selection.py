"""EXPORT: declared selection of a dataset: one `Spec` says everything, and its JSON
is in the manifest.

The stages run in this order, each counting its drops per problem; one that is not
asked for is not there:

    where            the filter as given
    valid            infrastructure faults and broken problems are never training data
    device           one device class: speedups of two are not comparable
    judged           by this version's detectors, under the policy asked for: a stale
                     verdict is refused
    correct          unless the filter names `correct` or `status`, or rows show no answer
    clean            unless the filter names `verdict`: no suspect and no hack leaves by accident
    reviewed         above a speedup, only attempts that a person has looked at
    speed, bound     by the low end of the interval; not above a believable one
    coverage         share of time in the candidate's own kernels
    extraction       the answer ends in one whole code block, with one model: the evaluated one,
                     in a language that the prompt asks for
    tokens           as long as asked for under a named counter; dropped, never cut
    benchmarks       the problem is none of a known benchmark's, by semantic key or family; always,
                     unless it is told
                     otherwise or rows are a report
    decontaminated   the problem is not like one that is held out
    mrs              mismatch rejection: trainer and rollout engine agree on the answer's tokens
    prs              profiling-based rejection sampling
    context          every earlier answer that the row shows may be shown
    turns            the turns of a trajectory that the rule names
    distinct         no near-duplicate of a better solution of the family
    choice           the samples of a problem that the rule names
    balance          caps per problem and per family
    rendered         the conversation is whole, holds no secret, quotes nothing that is held out
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain import bounds as numbers
from app.domain.credit import Declared, MismatchRejection
from app.domain.dataset.profiling_rejection import SCALE, TAU, Coverage, Draw, Ramp, Ratio
from app.domain.source.near_duplicates import Similarity


class Kind(StrEnum):
    """Kind of row."""

    TRAJECTORY = "trajectory"
    """A dialogue up to the chosen turn."""
    TURN = "turn"
    """History → one chosen turn."""
    MASKED = "masked"
    """A dialogue with a mark on each turn that is to be learnt."""
    SINGLE = "single"
    """The problem's first prompt → the code, history dropped."""
    PAIRS = "pairs"
    """One prompt, a better and a worse answer to it."""
    LABELLED = "labelled"
    """One prompt, one answer, good or bad."""
    RL_PROMPTS = "rl_prompts"
    """A problem to be tried."""
    REWARDS = "rewards"
    """A turn with its rewards and returns, good or bad."""

    @property
    def shows_answer(self) -> bool:
        """True if rows show answers to learn from."""
        return self is not Kind.RL_PROMPTS

    @property
    def shows_history(self) -> bool:
        """True if rows show the turns before the answer, which then have to be fit
        for a model's context.
        """
        return self in (Kind.TRAJECTORY, Kind.TURN, Kind.MASKED, Kind.PAIRS, Kind.LABELLED)

    @property
    def uses_failures(self) -> bool:
        """True if attempts that are wrong, slow or hacks become part of rows."""
        return self in (Kind.PAIRS, Kind.LABELLED, Kind.REWARDS)

    @property
    def takes_all(self) -> bool:
        """True if attempts are taken good or bad, so that no choice is left."""
        return self in (Kind.RL_PROMPTS, Kind.REWARDS)


class Source(StrEnum):
    """Rows that a selection starts from."""

    EVALUATIONS = "evaluations"
    """Attempts and their measurements."""
    PROBLEMS = "problems"
    """Stored problems, tried or not: RL prompts."""


class Turns(StrEnum):
    """Choice among the turns of a trajectory."""

    ALL = "all"
    FINAL = "final"
    BEST = "best"
    FIRST_CORRECT = "first_correct"
    IMPROVING = "improving"
    """Faster than all before it beyond the noise of both."""
    REPAIR = "repair"
    """Correct after a turn that was not."""
    ALL_UNTIL_BEST = "all_until_best"
    RETURN_TO_GO = "return_to_go"
    """Discounted return of at least `min_return` (Kevin)."""


class Context(StrEnum):
    """Earlier answers that may stand in the history of a row, where they bear no loss."""

    CLEAN = "clean"
    """Right and clean ones, and those that the selection itself keeps."""
    WRONG = "wrong"
    """Wrong ones and turns without code, too; no suspect, no hack, nothing that was not judged."""
    ANY = "any"
    """All of them, hacks included."""


CONTEXTS = {
    Context.CLEAN: "right and clean",
    Context.WRONG: "right and clean, or wrong; no suspect and no hack",
    Context.ANY: "any, hacks included",
}
"""For people."""


class Learns(StrEnum):
    """Answers of a row that a format's trainer puts loss on."""

    ANSWER = "answer"
    """The last one."""
    MARKED = "marked"
    """Turns that carry the row's mark."""
    EVERY = "every"
    """All that the row shows: the format has no mask."""


class BestOf(StrEnum):
    """Choice among the samples of one problem."""

    ALL = "all"
    TOP_K = "top_k"
    THRESHOLD = "threshold"
    EPSILON_BEST = "epsilon_best"
    """The shortest of those within `epsilon` of the best."""
    ANNA_KARENINA = "anna_karenina"
    """The first that is correct, and every failure (successes are alike, failures differ)."""


class Key(StrEnum):
    """Sort key of attempts."""

    SPEEDUP_CI_LOW = "speedup_ci_low"
    SPEEDUP = "speedup"
    CANDIDATE_US = "candidate_us"
    """Less is better."""
    REWARD = "reward"
    """Dr. Kernel's with coverage."""


class PairOf(StrEnum):
    """Reason to prefer one answer over another to the same prompt."""

    FAST_SLOW = "fast_slow"
    """Both right; intervals of the speedup apart."""
    CORRECT_WRONG = "correct_wrong"
    HONEST_HACK = "honest_hack"
    PREFERRED = "preferred"
    """A person said so."""


class Stale(StrEnum):
    """Treatment of verdicts by other detector versions or policies."""

    REFUSE = "refuse"
    REJUDGE = "rejudge"


class Reasoning(StrEnum):
    """Treatment of reasoning (everything up to `</think>`) in rows."""

    KEEP = "keep"
    DROP_HISTORY = "drop_history"
    """Dropped in earlier turns, as Qwen3's template and Kevin do."""
    DROP_ALL = "drop_all"


ALL_DEVICES = "all"
"""Value of `device`: rows of several device classes in one dataset, never compared
with each other.
"""

COUNTER = "utf8/4@1"
"""The token counter that needs no vocabulary: bytes of UTF-8 over four, rounded up.
An estimate.
"""

BOUNDS: dict[str, numbers.Bounds] = {
    "reviewed_above": numbers.NOT_NEGATIVE,
    "min_speedup": numbers.NOT_NEGATIVE,
    "max_speedup": numbers.POSITIVE,
    "min_coverage": numbers.SHARE,
    "max_tokens": numbers.COUNT,
    "jaccard": numbers.Bounds(low=0, high=1, low_open=True),
    "prs_tau": numbers.SHARE,
    "prs_scale": numbers.POSITIVE,
    "prs_speedup": numbers.NOT_NEGATIVE,
    "delta": numbers.NOT_NEGATIVE,
    "min_return": numbers.ANY,
    "gamma": numbers.SHARE,
    "k": numbers.COUNT,
    "threshold": numbers.ANY,
    "epsilon": numbers.NOT_NEGATIVE,
    "pairs_per_chosen": numbers.COUNT,
    "max_per_problem": numbers.COUNT,
    "max_per_family": numbers.COUNT,
    "balance": numbers.SHARE,
    "val_fraction": numbers.Bounds(low=0, high=1, high_open=True),
}
"""Numbers of a Spec → their bounds."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A declared selection.  ValueError for values that make no sense, with the expected ones."""

    format: str = "trl_sft"
    kind: Kind | None = None
    """Kind of the rows; None: the usual kind of the format."""
    source: Source = Source.EVALUATIONS
    where: str = ""
    backends: tuple[str, ...] = ()
    """Languages that prompts of `problems` ask for, a row each; none: triton."""
    families: tuple[str, ...] = ()
    """Families to take, for the source `problems`; none: all."""
    rate_run: str | None = None
    """Run with the first answers that `pass_rate` is computed from, for the source `problems`."""
    policy: str | None = None
    """`name@version` that verdicts must have been given under; None: the current one."""
    device: str | None = None
    """Device class of the evaluations taken, or `all`; None: the GPU class with most
    evaluations that the filter keeps, `cpu` only where no GPU has any.  A filter that
    names `gpu` decides for itself.
    """
    stale: Stale = Stale.REFUSE
    reviewed_above: float | None = None
    """From this measured speedup on, a person must have reviewed the evaluation."""
    min_speedup: float | None = None
    """Least low end of the 95 % interval."""
    max_speedup: float | None = None
    """Greatest measured speedup that is believed."""
    min_coverage: float | None = None
    extraction: bool = True
    max_tokens: int | None = None
    """Limit of the whole row: history and answer."""
    tokenizer: str = COUNTER
    """`utf8/4@1`, or `file:PATH` of a tokenizer.json (needs the package `tokenizers`)."""
    held_out: tuple[str, ...] = ()
    """Source sets of this database, or files of one JSON object a line with
    `reference` (or `code`) and `name`.
    """
    include_benchmarks: bool = False
    """True allows training on problems of known benchmarks (`app.domain.benchmarks`)."""
    similarity: Similarity = Similarity.MINHASH
    jaccard: float = 0.8
    mrs: MismatchRejection | None = None
    """Drops answers on which trainer and rollout engine disagree; None: no such stage."""
    prs: Ramp | None = None
    prs_draw: Draw = Draw.TURN
    prs_tau: float = TAU
    prs_scale: float = SCALE
    prs_ratio: Ratio = Ratio.TURN
    prs_coverage: Coverage = Coverage.TIME
    prs_speedup: float | None = None
    """Speedup from which on a turn stays at any coverage."""
    context: Context | None = None
    """None: `clean`, but `wrong` for the turns `repair`, which follow wrong ones."""
    turns: Turns | None = None
    """None: `best` for trajectories, `improving` for masks, else `all`."""
    delta: float = 0.0
    """Least relative gain beyond the noise, for `improving`."""
    min_return: float = 0.0
    gamma: float | None = None
    """Discount of returns; None: of each reward its own, 0.4 of Kevin's score, 1 of all others."""
    best_of: BestOf = BestOf.ALL
    k: int = 1
    key: Key = Key.SPEEDUP_CI_LOW
    threshold: float = 1.0
    epsilon: float = 0.05
    pass_rate: tuple[float, float] | None = None
    """Range of the share of correct and clean attempts, both ends included, for `rl_prompts`."""
    pairs: tuple[PairOf, ...] = (
        PairOf.FAST_SLOW,
        PairOf.CORRECT_WRONG,
        PairOf.HONEST_HACK,
        PairOf.PREFERRED,
    )
    pairs_per_chosen: int = 1
    """Pairs of each sort per chosen answer."""
    max_per_problem: int | None = None
    max_per_family: int | None = None
    balance: float = 0.0
    """Exponent: n rows of a problem become n^(1 − balance), rounded up; 0 keeps all,
    1 keeps one.
    """
    reasoning: Reasoning = Reasoning.KEEP
    advantages: Declared | None = None
    """Columns with rewards and advantages of the turns that rows show; None: no such columns."""
    seed: int = 0
    """Seed of the split and of every draw."""
    val_fraction: float = 0.05

    @property
    def history(self) -> Context:
        """Earlier answers that rows may show."""
        return self.context or (Context.WRONG if self.turns is Turns.REPAIR else Context.CLEAN)

    def __post_init__(self) -> None:
        for name, values in _NAMED.items():
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else _member(name, values, given))
        object.__setattr__(
            self, "pairs", tuple(_member("pairs", PairOf, one) for one in self.pairs)
        )
        for name, bounds in BOUNDS.items():
            value = getattr(self, name)
            _require(name, value is None or bounds.hold(value), str(bounds), value)
        if self.source is Source.PROBLEMS and self.pass_rate is not None:
            _require(
                "rate_run",
                self.rate_run is not None,
                "a run that the pass rate is of",
                self.rate_run,
            )
        if self.pass_rate is not None:
            _require("pass_rate", len(self.pass_rate) == 2, "two numbers", self.pass_rate)
            low, high = self.pass_rate
            _require("pass_rate", 0 <= low <= high <= 1, "0 ≤ low ≤ high ≤ 1", self.pass_rate)


_NAMED: dict[str, type[StrEnum]] = {
    "kind": Kind,
    "source": Source,
    "stale": Stale,
    "similarity": Similarity,
    "prs": Ramp,
    "prs_draw": Draw,
    "prs_ratio": Ratio,
    "prs_coverage": Coverage,
    "context": Context,
    "turns": Turns,
    "best_of": BestOf,
    "key": Key,
    "reasoning": Reasoning,
}
"""Fields of a Spec that hold a member: a plain name of it becomes the member, which
rules compare by identity.
"""


def _member(name: str, values: type[StrEnum], given: str) -> StrEnum:
    try:
        return values(given)
    except ValueError:
        raise ValueError(f"{name}: expected one of {', '.join(values)}, got {given!r}") from None


def _require(name: str, holds: bool, expected: str, came: object) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected}, got {came}")
