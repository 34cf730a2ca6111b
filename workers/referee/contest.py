"""The contest: ABBA groups of reference and candidate blocks on the referee's clock, until the ratio is known.

A block's time per call is (wall + left over − hand-over) / calls.

The hand-over is measured by blocks of no calls, and the shorter side's is subtracted from both: as both sides' blocks
last equally long, what is wrong with it cancels from their ratio.  The slope over the candidate's own block sizes would
be the obvious estimator, but it is in the candidate's hands: sleeping in short blocks flattens it.  A candidate that
inflates its own hand-over changes nothing; one that makes it short gets less subtracted from both.

Left over is what the device still had to do for a process that had said that it was done.

Of a group, each side's faster block counts: on a shared host something is added to one block in ten, nothing is ever
taken away.

Groups come in rounds.  Inputs of a round are drawn beforehand and outputs are verified afterwards, while other referees
may use the device; only the blocks themselves run alone."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace

from app.domain.evaluation import Block, Canary, Timing
from workers.referee import statistics
from workers.referee.cores import Cores
from workers.referee.health import Clocks, Health
from workers.referee.lease import Lease
from workers.referee.party import Seat
from workers.referee.trials import Batch, Delivery, Times, Trials
from workers.sandbox.spawn import Stopwatch
from workers.sandbox.wakeful import Wakeful
from workers.wire import Delivering

PRECISE = math.log(1.01)
"""Half-width of the log-ratio's interval at which measuring stops."""

SHORT_US = 50.0
PRECISE_SHORT = math.log(1.03)
"""The same where one side's call is shorter than that: mostly the host's launching is timed then, and no number of
groups makes that steadier."""

DECIDED = math.log(1 / 5)
"""A candidate slower than this after `DECIDED_GROUPS` groups is slow; its interval stays wide."""

DECIDED_GROUPS = 3
MAX_GROUPS = 40
MAX_REPEATS = 2
ROUND_GROUPS = 6
"""Groups drawn at once, if their inputs and outputs fit into the device's arena."""

DRAW_US = 200_000.0
"""What making the inputs of a group may take: a slow reference has a slower fp64 twin, and then groups are small."""

OVERDRAFT = 1.5
"""A slow pair may use its budget so many times over in order to have six groups, and with them a narrow interval."""

PATIENCE = 2.0
"""Making inputs and verifying outputs may take so many times the budget; from then on six groups are enough.  On the
CPU device, where a reference's fp64 twin is no faster than the reference, that is most of a contest."""

ROOM = 1.5
"""A block may turn out to have so many times the calls that were planned; inputs and memory for its outputs are there
beforehand.  Drawing them is most of what a contest costs the others."""

REFERENCE, CANDIDATE = SIDES = ("reference", "candidate")

HANDOVERS = 7
"""Of each side, before and after the groups of a round: a moment at which both are slow is hardly as long as a round.
The first also wake the cores on which the round will be."""

HANDOVER_SHARE = 0.1
"""Of a block, what the hand-over may be: where a host is slow, blocks are longer, up to `ROOM` times."""

HANDOVER_OFF_US = 12.0
"""By so much hand-overs of calls differ from those of none, and one process's from another's: what pairs of known ratio
were off by on an H200, 0.5 % of a block of 2.3 ms."""

LEFT_OVER_US = 40.0
"""Left over that is less than this is the noise of asking."""

BUSY_US = 1000.0
"""Where the device does not answer for so long after blocks of the reference, somebody else keeps it busy: processes
take turns of some milliseconds, and who computes nothing has none."""

TOO_SHORT = 0.7
"""Of the calls that a block could have, as few as this are too few: the guess was wrong that they were drawn by."""


@dataclass(kw_only=True)
class Contest:
    """What has been measured so far.  Times per call follow from blocks and hand-overs whenever they are asked for: a
    hand-over that was measured at a bad moment is put right by later ones, for the groups before it, too."""

    block_us: float
    """What a block should last at the least: against this, the hand-over's jitter (some 10 µs) is small."""
    guess_us: tuple[float, float] = (1.0, 1.0)
    """Time per call of reference and candidate, before anything that counts is measured."""
    handovers: list[Block] = field(default_factory=list)
    """Blocks of no calls."""
    groups: list[list[Block]] = field(default_factory=list)
    """Reference, candidate, candidate, reference: those that count."""
    deliveries: list[Delivery] = field(default_factory=list)
    """Outputs of this round, not yet verified."""
    health: Health
    canary_us: list[float] = field(default_factory=list)
    """Before and after each round."""
    clocks: Clocks = field(default_factory=Clocks)
    """As they were last, which is no longer ago than this round's beginning."""
    beside_s: float = 0.0
    """Spent on making inputs and on verifying outputs."""
    repeats: int = 0
    """Times that all was thrown away, because the device was not ours alone."""
    drawn_again: bool = False
    """Whether a round ended early because its blocks would all have been short."""

    def handover_us(self, side: str) -> float:
        """Lower quartile of a side's hand-overs: a noisy moment must not make the calls look shorter than they are."""
        walls = sorted(block.wall_us for block in self.handovers if block.side == side)
        return walls[len(walls) // 4] if walls else 0.0

    def times_us(self, side: str) -> list[float]:
        """Per call, block by block."""
        return [time_us for group in self._groups_us(side) for time_us in group]

    @property
    def ratios(self) -> list[float]:
        """Per group: ln(reference / candidate), of the faster block of each."""
        pairs = zip(self._groups_us(REFERENCE), self._groups_us(CANDIDATE), strict=True)
        return [math.log(min(reference) / min(candidate)) for reference, candidate in pairs]

    def _groups_us(self, side: str) -> list[list[float]]:
        """Per call, of each group's blocks of that side."""
        handover_us, settled_us = min(map(self.handover_us, SIDES)), self.settled_us
        return [
            [
                _per_call(block.wall_us + _left_over_us(block, settled_us), handover_us, block.calls)
                for block in group
                if block.side == side
            ]
            for group in self.groups
        ]

    @property
    def settled_us(self) -> float:
        """What the device takes to answer after blocks of the reference, which leaves nothing over; 0 where it is not
        asked."""
        found = [block.settled_us for group in self.groups for block in group if block.side == REFERENCE]
        return statistics.median([each for each in found if each is not None] or [0.0])

    @property
    def per_call_us(self) -> tuple[float, float]:
        """Of reference and candidate, as far as is known.  The shortest counts: noise only adds, and a block that noise
        made small would be noisy."""
        if not self.groups:
            return self.guess_us
        return min(self.times_us(REFERENCE)), min(self.times_us(CANDIDATE))

    @property
    def lasting_us(self) -> float:
        """What a block should last, now that the hand-over may be known."""
        return min(ROOM * self.block_us, max(self.block_us, self.handover_us(REFERENCE) / HANDOVER_SHARE))

    @contextmanager
    def beside(self, lease: Lease) -> Iterator[None]:
        """The device with others: what is done meanwhile is not timed, but takes its time."""
        with lease.shared():
            began = time.monotonic()
            yield
            self.beside_s += time.monotonic() - began

    def watch(self) -> None:
        """Run the canary.  Raises DeviceUnhealthyError where the driver has reported a fault."""
        self.health.require_sound()
        self.canary_us.append(self.health.canary_us())
        self.clocks = self.health.clocks()

    @property
    def disturbed(self) -> bool:
        """Whether somebody else was there, as the canary of this round says, or the device's answers."""
        return self.settled_us > BUSY_US or not all(map(self.health.alone, self.canary_us[-2:]))

    def start_again(self) -> None:
        """Nothing so far counts."""
        self.repeats += 1
        self.groups.clear()
        self.handovers.clear()


@dataclass(frozen=True, kw_only=True)
class Venue:
    """Where a contest is held."""

    lease: Lease
    wakeful: Wakeful
    health: Health
    stopwatch: Stopwatch
    cores: Cores | None
    """None on the CPU, where both sides are bound to one core from their start."""

    @contextmanager
    def alone(self, trials: Trials) -> Iterator[None]:
        """Cores awake, and the two sides on quiet ones."""
        with ExitStack() as stack:
            stack.enter_context(self.wakeful.awake())
            if self.cores is not None:
                sides = (trials.reference, trials.candidate)
                stack.enter_context(self.cores.quiet([side.process.pid for side in sides]))
            yield


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which a contest is held."""

    budget_s: float
    """For all of it, in seconds."""
    block_us: float
    """See Contest."""
    round_bytes: int
    """Memory for the inputs and outputs of a round."""
    floor_us: float
    """Roofline floor, passed on into the Timing."""


def run(trials: Trials, place: Venue, terms: Terms, *, candidate_us: float) -> Timing | None:
    """Measure until precise, decided or out of budget.  None as soon as a timed call is wrong.

    `candidate_us` is the shortest block of one call so far.  Raises DeviceUnhealthyError, and what
    the parties raise."""
    contest = Contest(block_us=terms.block_us, health=place.health)
    with place.lease.shared():
        wall_ns = trials.run_reference(trials.draw(1), 0, 1).wall_ns
    contest.guess_us = (
        _prepare(trials, place.lease, trials.reference, terms.block_us, wall_ns / 1000),
        _prepare(trials, place.lease, trials.candidate, terms.block_us, candidate_us),
    )
    if trials.failed:
        return None
    spent_s = 0.0
    while _make_room(contest, trials, place.lease):
        groups = _draw_round(contest, trials, place.lease, terms)
        with place.lease.exclusive(), place.alone(trials):
            began = time.monotonic() - spent_s
            trials.stopwatch = place.stopwatch
            reason = _round(contest, trials, groups, began, terms.budget_s)
            trials.stopwatch = None
            spent_s = time.monotonic() - began
        for delivery in contest.deliveries:
            with contest.beside(place.lease):
                trials.verify(delivery)
        contest.deliveries.clear()
        if trials.failed:
            return None
        if contest.disturbed and contest.repeats < MAX_REPEATS:
            contest.start_again()
            continue
        if len(contest.groups) >= statistics.RANK_FROM and contest.beside_s >= PATIENCE * terms.budget_s:
            reason = reason or "budget"
        if reason:
            place.health.note(contest.canary_us[-1])
            return _timing(contest, reason, terms.floor_us)
    return None


def _make_room(contest: Contest, trials: Trials, lease: Lease) -> bool:
    """Where outputs stay where they are computed, memory for those of as many calls as a block should have: the first
    guess may have been of a moment at which others had the device.  False if the candidate gave a wrong answer."""
    for seat, per_call_us in _seats(contest, trials):
        if not contest.groups and _is_cramped(contest, trials, seat, per_call_us):
            with lease.shared():
                trials.survey(seat, _calls(trials, ROOM * contest.block_us / per_call_us))
    return not trials.failed


def _seats(contest: Contest, trials: Trials) -> Iterator[tuple[Seat, float]]:
    return zip((trials.reference, trials.candidate), contest.per_call_us, strict=True)


def _is_cramped(contest: Contest, trials: Trials, seat: Seat, per_call_us: float) -> bool:
    """Whether a block would end early for want of memory for its outputs."""
    return seat.delivering == Delivering.HOLD and seat.room < TOO_SHORT * _enough(contest, trials, per_call_us)


def _enough(contest: Contest, trials: Trials, per_call_us: float) -> int:
    """Calls with which a block lasts as long as it should."""
    return _calls(trials, contest.lasting_us / per_call_us)


def _round(contest: Contest, trials: Trials, groups: list[Batch], began: float, budget_s: float) -> str:
    """Hold the groups of a round, between two canaries; why to stop, or nothing.  The device is ours alone.

    A first group does not count: both sides are new to the caches of their cores.  Where memory allows no more than two
    groups in a round, calls are so long that this matters only once."""
    contest.watch()
    _measure_handover(contest, trials)
    if not contest.groups:
        contest.guess_us = _shortest(contest, _hold(contest, trials, groups.pop()))
        if _too_short(contest, trials, groups):
            contest.drawn_again = True
            return ""
    elif len(groups) > 2:
        _hold(contest, trials, groups.pop())
    reason = ""
    for group in groups:
        contest.groups.append(_hold(contest, trials, group))
        if reason := _stop_reason(contest, (time.monotonic() - began) / budget_s):
            break
    _measure_handover(contest, trials)
    contest.watch()
    return reason


def _too_short(contest: Contest, trials: Trials, groups: list[Batch]) -> bool:
    """Whether every block of this round would be shorter than need be, and those of another need not."""
    if contest.drawn_again:
        return False
    there = min(batch.slots // 2 for batch in groups)
    cramped = any(_is_cramped(contest, trials, *each) for each in _seats(contest, trials))
    return cramped or there < TOO_SHORT * _enough(contest, trials, min(contest.guess_us))


def _shortest(contest: Contest, group: list[Block]) -> tuple[float, float]:
    """Time per call of both sides in one group."""
    handover_us = contest.handover_us(REFERENCE)
    reference_us, candidate_us = (
        min(_per_call(block.wall_us, handover_us, block.calls) for block in group if block.side == side)
        for side in SIDES
    )
    return reference_us, candidate_us


def _prepare(trials: Trials, lease: Lease, seat: Seat, block_us: float, guess_us: float) -> float:
    """Microseconds per call, about; and the process ready to deliver as timed blocks will ask it to.

    `guess_us`: the same from a single call, which mostly is the hand-over.  So a second look follows where the first
    shows that a block needs many more calls."""
    count, found_us = 0 if trials.surveys else 1, guess_us
    while not trials.failed and (wanted := _calls(trials, ROOM * block_us / found_us)) > 2 * count:
        count = wanted
        with lease.shared():
            surveyed = trials.survey(seat, count)
        if not surveyed:
            break
        with lease.shared():
            found_us = trials.probe(seat, count)
    return found_us


def _calls(trials: Trials, enough: float) -> int:
    """Calls in a block, as many as there may be at a time."""
    return max(1, min(_most(trials) // 2, math.ceil(enough)))


def _most(trials: Trials) -> int:
    """Input sets of a group: as many as have room, and as can be drawn in time."""
    return max(2, min(trials.slots, math.floor(DRAW_US / trials.draw_us)))


def _draw_round(contest: Contest, trials: Trials, lease: Lease, terms: Terms) -> list[Batch]:
    """Fresh inputs for the groups of a round.  A candidate that looks slow gets a short one: it may be decided."""
    reference_us, candidate_us = contest.per_call_us
    slow = not contest.groups and candidate_us > 4 * reference_us
    wanted = 1 + (DECIDED_GROUPS if slow else ROUND_GROUPS)  # one does not count
    calls = _calls(trials, ROOM * contest.block_us / min(reference_us, candidate_us))
    batches: list[Batch] = []
    while len(batches) < wanted and (
        len(batches) < 2 or len(batches) * 2 * calls * trials.bytes_per_call <= terms.round_bytes
    ):
        with contest.beside(lease):
            batches.append(trials.draw(2 * calls))
    return batches


def _sizes(contest: Contest, trials: Trials, batch: Batch) -> tuple[list[int], list[int]]:
    """Secret block sizes for one group: of the candidate's choosing neither, of the reference as many calls as last as
    long.  Told at the last moment, when the most is known about how long a call takes."""
    most = batch.slots // 2
    reference_us, candidate_us = contest.per_call_us
    candidate = [_secret_size(contest.lasting_us / candidate_us, min(most, trials.candidate.room)) for _ in range(2)]
    most = min(most, trials.reference.room)
    return [max(1, min(most, round(calls * candidate_us / reference_us))) for calls in candidate], candidate


def _secret_size(enough: float, most: int) -> int:
    """Calls in a block: enough to last, give or take a quarter that nobody is told."""
    wanted = max(1, min(most, math.ceil(enough)))
    spread = max(1, wanted // 2)
    return max(1, min(most, wanted - spread // 2 + secrets.randbelow(spread + 1)))


def _measure_handover(contest: Contest, trials: Trials) -> None:
    for side, seat in zip(SIDES, (trials.reference, trials.candidate), strict=True):
        for _ in range(HANDOVERS):
            contest.handovers.append(_block(-1, side, 0, trials.hand_over(seat)))


def _hold(contest: Contest, trials: Trials, batch: Batch) -> list[Block]:
    """Reference, candidate, candidate, reference.

    Both sides meet each slot once a block, just written by the referee: a side that met its slots twice would find
    them in its cache."""
    reference, candidate = _sizes(contest, trials, batch)
    number = len(contest.groups)
    before = _block(number, REFERENCE, reference[0], trials.run_reference(batch, 0, reference[0]))
    both = []
    for first, calls in zip((0, candidate[0]), candidate, strict=True):
        delivery = trials.run_candidate(batch, first, calls)
        contest.deliveries.append(delivery)
        both.append(_block(number, CANDIDATE, calls, delivery.times))
    after = _block(number, REFERENCE, reference[1], trials.run_reference(batch, reference[0], reference[1]))
    return [replace(block, **asdict(contest.clocks)) for block in (before, *both, after)]


def _per_call(wall_us: float, handover_us: float, calls: int) -> float:
    """Microseconds per call, and never less than a twentieth of the wall time however the hand-over fluctuates."""
    return max(wall_us - handover_us, wall_us / 20) / calls


def _left_over_us(block: Block, settled_us: float) -> float:
    """What the device still had to do when the candidate said that it was done, beyond what asking takes."""
    if block.side == REFERENCE or block.settled_us is None:
        return 0.0
    found = block.settled_us - settled_us
    return found if found > LEFT_OVER_US else 0.0


def _block(group: int, side: str, calls: int, times: Times) -> Block:
    settled_us = None if times.settled_ns is None else times.settled_ns / 1000
    return Block(
        group=group, side=side, calls=calls, wall_us=times.wall_ns / 1000, claimed_us=times.claimed_ns / 1000,
        settled_us=settled_us,
    )  # fmt: skip


def _stop_reason(contest: Contest, spent: float) -> str:
    """Why to stop, or nothing.  `spent`: share of the budget, which counts only while the device is ours alone."""
    ratios = contest.ratios
    groups = len(ratios)
    if groups < 2:
        return ""
    found = statistics.interval(ratios)
    if groups >= DECIDED_GROUPS and found.centre < DECIDED and max(ratios) < DECIDED:
        return "decided"
    if groups >= statistics.RANK_FROM and found.half_width <= _wanted(contest):
        return "precise"
    if groups >= MAX_GROUPS:
        return "groups"
    enough = groups >= statistics.RANK_FROM or spent >= OVERDRAFT
    return "budget" if spent >= 1 and enough else ""


def _canary(contest: Contest) -> Canary | None:
    """The worst that the canary showed while what counts was measured; None where there is none (CPU)."""
    if not contest.health.expected_us:
        return None
    return Canary(
        expected_us=contest.health.expected_us, before_us=contest.canary_us[-2], after_us=contest.canary_us[-1],
        repeats=contest.repeats,
    )  # fmt: skip


def _wanted(contest: Contest) -> float:
    shortest = min(statistics.median(contest.times_us(side)) for side in SIDES)
    return PRECISE_SHORT if shortest < SHORT_US else PRECISE


def _interval(contest: Contest) -> statistics.Interval:
    """Of the groups, and of what they have in common and do not show: how far the hand-over may be off on each side."""
    found = statistics.interval(contest.ratios)
    walls = [
        statistics.median([block.wall_us for group in contest.groups for block in group if block.side == side])
        for side in SIDES
    ]
    return statistics.widened(found, math.hypot(*(HANDOVER_OFF_US / wall for wall in walls)))


def _timing(contest: Contest, reason: str, floor_us: float) -> Timing:
    found = _interval(contest)
    blocks = [block for group in contest.groups for block in group]
    timed = [block for block in blocks if block.side == CANDIDATE]
    claimed = [block.claimed_us / block.calls for block in timed if block.claimed_us is not None]
    return Timing(
        reference_us=statistics.median(contest.times_us(REFERENCE)),
        candidate_us=statistics.median(contest.times_us(CANDIDATE)),
        speedup=math.exp(found.centre), ci_low=math.exp(found.low), ci_high=math.exp(found.high),
        groups=len(contest.groups), calls_per_side=sum(block.calls for block in timed),
        handover_us=contest.handover_us(REFERENCE), candidate_handover_us=contest.handover_us(CANDIDATE),
        claimed_us=statistics.median(claimed), floor_us=floor_us, stop_reason=reason,
        blocks=(*contest.handovers, *blocks), canary=_canary(contest),
    )  # fmt: skip
