"""EXPORT: the plan of a dataset: the attempts of every row, and the reason why each
other attempt is left out.

Attempts come in Arrow, ordered by family, problem, trajectory and turn; Python decides
about whole problems, one chunk of them at a time.  Nothing here depends on the order in
which evaluations were stored.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, groupby
from operator import attrgetter

import pyarrow as pa

from app.domain.dataset import answer_pairs, sampling
from app.domain.dataset.attempt import Attempt, Cell, lines, trajectories
from app.domain.dataset.example_facts import Extra
from app.domain.dataset.selection import Kind, Learns, PairOf, Source, Turns
from app.domain.dataset.split import TRAIN, split_of
from app.domain.source.near_duplicates import Search, Similarity
from app.export import row_limits, unchosen_rows
from app.export.decisions import Decisions, first_of_each, numbers, with_earlier, without
from app.export.funnel_stages import (
    BENCHMARKS,
    CHOICE,
    CONTEXT,
    DECONTAMINATED,
    DISTINCT,
    IN,
    MRS,
    PRS,
    TURNS,
    WHERE,
    Funnel,
    stage_names,
)
from app.export.plan_tables import (
    DECISIONS,
    EXTRA,
    FACTS,
    PLAN,
    Chunk,
    Pick,
    Prints,
    attempts_of,
    beside_column,
    member,
    with_history,
)
from app.export.selection_inputs import Inputs
from app.export.turn_credits import credits_of
from app.store.dataset.export_attempts import PASSED


class Selector:
    """Decides problem by problem.  Its only state across problems: a family's
    solutions and counts, and row numbers.
    """

    def __init__(self, given: Inputs) -> None:
        self.given = given
        self.spec, self.kind = given.spec, given.kind
        self.stages = stage_names(given.spec, given.kind, given.conditions, trains=given.trains)
        self.funnel = Funnel(stages=self.stages)
        self._credits = given.book.by_trajectory() if given.book is not None else {}
        self._preferred = given.preferred()
        self._database_stages = {place: one.name for place, one in enumerate(given.conditions)}
        self._refused = {
            place
            for place, name in self._database_stages.items()
            if name in (WHERE, "valid", "device", "judged")
        }
        self._benchmarks = (given.benchmarks or {}) if BENCHMARKS in self.stages else {}
        self._family = ""
        self._searches: dict[Cell, Search] = {}
        self._of_family = 0
        self._next_index: Counter[str] = Counter()

    def chunk(self, table: pa.Table) -> Chunk:
        """Decide about whole problems."""
        attempts = attempts_of(table)
        families = table.column("family").to_pylist()
        columns = [
            table.column(name).to_pylist() for name in ("normalised", "renamed", "signature")
        ]
        prints = list(zip(*columns, strict=True))
        decided = [IN] * len(attempts)
        details: list[str | None] = [None] * len(attempts)
        decisions = Decisions(decided, details)
        picks: list[Pick] = []
        splits: list[str] = []
        for problem_id, group in groupby(attempts, key=attrgetter("problem_id")):
            of_problem = list(group)
            family = families[of_problem[0].place]
            self._enter(family)
            found = self._problem(problem_id, of_problem, prints, decisions)
            picks += found
            splits += [self._split(family)] * len(found)
            self._count(problem_id, of_problem, decided, len(found))
        if self._credits:
            picks = [self._credited(pick) for pick in picks]
        decision_table = pa.Table.from_arrays(
            [
                table.column("evaluation_id"),
                table.column("turn_id"),
                table.column("problem_id"),
                pa.array(decided, pa.string()),
                pa.array(details, pa.string()),
            ],
            schema=DECISIONS,
        )
        return Chunk(plan=self._plan(table, picks, splits), decisions=decision_table)

    def closed(self) -> set[str]:
        """Problems of which no attempt may be in a dataset."""
        return {*self.given.contaminated, *self._benchmarks}

    def _split(self, family: str) -> str:
        if not self.given.trains:
            return TRAIN
        return split_of(family, seed=self.spec.seed, val_fraction=self.spec.val_fraction)

    def _credited(self, pick: Pick) -> Pick:
        attempt = pick.attempt
        members = self._credits.get(attempt.trajectory_id or "")
        if members is None or attempt.turn is None:
            return pick
        return pick._replace(extra=pick.extra._replace(credit=credits_of(members, attempt.turn)))

    def _enter(self, family: str) -> None:
        if family != self._family:
            self._family, self._of_family = family, 0
            self._searches = {}

    def _count(
        self, problem_id: str, attempts: list[Attempt], decided: list[str], rows: int
    ) -> None:
        first, last = attempts[0].place, attempts[-1].place
        kept = Counter(decided[first : last + 1])
        del kept[WHERE]
        if kept:
            self.funnel.by_problem[problem_id] = kept
        if rows:
            self.funnel.rows[problem_id] = rows

    def _problem(
        self, problem_id: str, attempts: list[Attempt], prints: list[Prints], decisions: Decisions
    ) -> list[Pick]:
        survivors = []
        for attempt in attempts:
            if attempt.stage == PASSED:
                survivors.append(attempt)
            else:
                decisions.decided[attempt.place] = self._database_stages[attempt.stage]
        if problem_id in self._benchmarks:
            decisions.drop(survivors, BENCHMARKS, str(self._benchmarks[problem_id]))
            return []
        if problem_id in self.given.contaminated:
            decisions.drop(survivors, DECONTAMINATED, str(self.given.contaminated[problem_id]))
            return []
        if self.spec.source is Source.PROBLEMS:
            return unchosen_rows.untried(survivors, self.spec, self.given.rates, decisions)
        if self.kind is Kind.RL_PROMPTS:
            return unchosen_rows.prompts(survivors, self.spec, self.given.quotes, decisions)
        if self.kind is Kind.REWARDS:
            return unchosen_rows.rewards(attempts, survivors, self.spec)
        dialogues = trajectories(attempts)
        survivors = self._agreed(survivors, decisions)
        kept = self._sampled(attempts, survivors)
        decisions.drop(without(survivors, kept), PRS, None)
        fit = self._fit(dialogues, kept)
        shown = [one for one in kept if one.place in fit]
        decisions.drop(
            without(kept, shown),
            CONTEXT,
            f"an earlier answer is not fit for a context ({self._context})",
        )
        return self._chosen(attempts, dialogues, shown, fit, prints, decisions)

    def _agreed(self, survivors: list[Attempt], decisions: Decisions) -> list[Attempt]:
        """Survivors on which trainer and rollout engine agree, and those without a ratio."""
        if self.given.ratios is None:
            return survivors
        kept = []
        for one in survivors:
            outcome = self.given.ratios.of((one.trajectory_id, one.turn))
            if outcome is None or outcome.dropped is None:
                kept.append(one)
            else:
                decisions.drop([one], MRS, f"{outcome.dropped}: {outcome.detail}")
        return kept

    def _sampled(self, attempts: list[Attempt], survivors: list[Attempt]) -> list[Attempt]:
        if self.spec.prs is None:
            return survivors
        of = {one.place: line for line in lines(attempts) for one in line}
        return [one for one in survivors if sampling.survives_prs(one, self.spec, of[one.place])]

    @property
    def _context(self) -> str:
        return "each is learnt" if self.given.learns is Learns.EVERY else self.spec.history

    def _fit(self, dialogues: list[list[Attempt]], kept: list[Attempt]) -> set[int]:
        """Positions of attempts with a history that a row may show."""
        if not self.kind.shows_history:
            return {one.place for one in kept}
        passing = {one.place for one in kept}
        fit: set[int] = set()
        for turns in dialogues:
            if self.given.learns is Learns.EVERY:
                fit |= sampling.with_passing_history(turns, passing)
            else:
                fit |= sampling.with_fit_history(
                    turns, passing, self.spec.history, self.given.quotes
                )
        return fit

    def _distinct(
        self, survivors: list[Attempt], prints: list[Prints], decisions: Decisions
    ) -> list[Attempt]:
        if self.spec.similarity is Similarity.NONE:
            return survivors
        kept = []
        for attempt in sampling.ranked(survivors, self.spec.key):
            search = self._searches.get(attempt.cell)
            if search is None:
                search = Search(level=self.spec.similarity, jaccard=self.spec.jaccard)
                self._searches[attempt.cell] = search
            duplicate = search.add(member(attempt, prints, in_dialogue=self.kind.shows_history))
            if duplicate is None:
                kept.append(attempt)
            else:
                decisions.drop([attempt], DISTINCT, f"{duplicate.rule} of {duplicate.of}")
        kept.sort(key=attrgetter("place"))
        return kept

    def _chosen(
        self,
        attempts: list[Attempt],
        dialogues: list[list[Attempt]],
        kept: list[Attempt],
        fit: set[int],
        prints: list[Prints],
        decisions: Decisions,
    ) -> list[Pick]:
        """Choose turns, drop near-duplicates, choose samples within the limits, and make rows."""
        eligible = {one.place for one in kept}
        units = dialogues
        if self.spec.turns is Turns.RETURN_TO_GO:
            units = lines(attempts)
        of_each = (sampling.of_trajectory(each, eligible, self.spec, self.kind) for each in units)
        turns = sorted(chain.from_iterable(of_each), key=attrgetter("place"))
        decisions.drop(without(kept, turns), TURNS, None)
        taken = self._distinct(turns, prints, decisions)
        earlier: dict[int, list[Attempt]] = {}
        if self.kind in (
            Kind.TRAJECTORY,
            Kind.MASKED,
        ):  # one row a dialogue, which ends with the last of them
            ends = [(each[:-1], each[-1]) for each in trajectories(taken)]
            earlier = {last.place: before for before, last in ends}
            taken = [last for _, last in ends]
        best = sampling.of_problem(taken, self.spec)
        decisions.drop(with_earlier(without(taken, best), earlier), CHOICE, None)
        found = self._rows(attempts, best, earlier, fit, decisions)
        picks = row_limits.within(found, self.spec, self.kind, self._of_family)
        self._of_family += len(picks)
        row_limits.note(found, picks, self.kind, earlier, decisions)
        if self.kind is Kind.TRAJECTORY:
            decisions.drop(
                (one for row in picks for one in earlier[row.attempt.place]),
                CHOICE,
                "an earlier turn of a row",
            )
        return (
            with_history(picks, dialogues, self.given.learns) if self.kind.shows_history else picks
        )

    def _rows(
        self,
        attempts: list[Attempt],
        rows: list[Attempt],
        earlier: dict[int, list[Attempt]],
        fit: set[int],
        decisions: Decisions,
    ) -> list[Pick]:
        match self.kind:
            case Kind.PAIRS:
                return self._pairs(attempts, rows, decisions)
            case Kind.LABELLED:
                bad = first_of_each(
                    one for one in attempts if one.place in fit and self._is_failure(one)
                )
                failed = {one.source_sha256 for one in attempts if self._is_failure(one)}
                good = [one for one in rows if one.source_sha256 not in failed]
                decisions.drop(
                    without(rows, good), CHOICE, "the same answer failed in another evaluation"
                )
                labelled = [(one, True) for one in good] + [(one, False) for one in bad]
                return [Pick(one, extra=Extra(label=label)) for one, label in labelled]
            case Kind.MASKED:
                return [
                    Pick(one, extra=Extra(train=numbers([*earlier[one.place], one])))
                    for one in rows
                ]
            case _:
                return [Pick(one) for one in rows]

    def _pairs(
        self, attempts: list[Attempt], chosen: list[Attempt], decisions: Decisions
    ) -> list[Pick]:
        usable = [one for one in attempts if one.stage not in self._refused and one.teachable]
        found = answer_pairs.pairs(chosen, usable, self.spec)
        if PairOf.PREFERRED in self.spec.pairs and self._preferred:
            preferred = self._by_people(chosen, usable)
            said = {pair.answers for pair in preferred}
            # a person's word counts more than a measurement, and two pairs would contradict
            found = [pair for pair in found if pair.answers not in said] + preferred
        decisions.drop(
            without(chosen, [pair.chosen for pair in found]),
            CHOICE,
            "no worse answer to the same prompt",
        )
        return [Pick(pair.chosen, pair.rejected, Extra(why=pair.why)) for pair in found]

    def _by_people(self, chosen: list[Attempt], usable: list[Attempt]) -> list[answer_pairs.Pair]:
        by_id: dict[str, list[Attempt]] = {}
        for one in usable:
            by_id.setdefault(one.evaluation_id, []).append(one)
        return [
            answer_pairs.Pair(better, worse, PairOf.PREFERRED)
            for better in chosen
            for identifier in self._preferred.get(better.evaluation_id, ())
            for worse in by_id.get(identifier, ())
            if worse.prompt == better.prompt is not None
        ]

    def _is_failure(self, attempt: Attempt) -> bool:
        return attempt.stage not in self._refused and attempt.teachable and not attempt.succeeded

    def _plan(self, table: pa.Table, picks: list[Pick], splits: list[str]) -> pa.Table:
        facts = table.select([one.name for one in FACTS])
        rows = facts.take(pa.array([pick.attempt.place for pick in picks], pa.int64()))
        worse = pa.array(
            [pick.rejected.place if pick.rejected else None for pick in picks], pa.int64()
        )
        rejected = facts.take(worse)
        extra = zip(*(pick.extra for pick in picks), strict=True) if picks else [()] * len(EXTRA)
        columns = [*rows.columns, *rejected.columns]
        columns += [pa.array(values, kind) for values, (_, kind) in zip(extra, EXTRA, strict=True)]
        columns.append(beside_column(table, picks))
        indices = []
        for split in splits:
            indices.append(self._next_index[split])
            self._next_index[split] += 1
        columns += [pa.array(splits, pa.string()), pa.array(indices, pa.int64())]
        return pa.Table.from_arrays(columns, schema=PLAN)
