"""BROWSE: titles, explanations and wording of findings, by detector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """Wording of a detector's findings.  `{key}` in a row stands for a value of the evidence with
    its unit; a row without its values is left out.
    """

    title: str
    meaning: str
    sentence: str = ""
    """In place of the finding's summary."""
    rows: tuple[tuple[str, str, str], ...] = ()
    """Name, expected, got."""


MEANINGS: dict[str, Meaning] = {
    "begun_early": Meaning(
        title="Work before the clock started",
        meaning=(
            "The device was busy before the timed block began: work was moved out of the"
            " measurement."
        ),
        rows=(
            (
                "Device busy before a block",
                "{reference_before_us} (reference)",
                "{early_before_us}",
            ),
            ("Blocks that began early", "0", "{early_blocks} of {blocks}"),
        ),
    ),
    "bimodal_times": Meaning(
        title="Two kinds of call times",
        meaning="Calls are either fast or slow with little between, as when some calls skip work.",
        rows=(
            ("Time per call", "one value", "{fast_us} or {slow_us}"),
            ("Smaller group", "–", "{smaller_share}"),
        ),
    ),
    "broken_protocol": Meaning(
        title="Tampered control channel",
        meaning=(
            "The candidate's process wrote data of its own into the channel to the trusted process."
        ),
    ),
    "call_dependence": Meaning(
        title="Result depends on the call",
        meaning=(
            "Some kinds of calls are right and others wrong: the code behaves differently by input"
            " or by call."
        ),
    ),
    "calls_without_launch": Meaning(
        title="Calls without a kernel launch",
        meaning=(
            "A single call launches kernels, many calls together launch fewer: results were"
            " prepared or reused."
        ),
        rows=(
            ("Kernel launches in {calls} calls", "{launches_alone} per call", "{launches} in all"),
        ),
    ),
    "claimed_time": Meaning(
        title="Clock tampered with",
        meaning=(
            "The candidate's process reports its own time for each block; a patched clock reports"
            " too little."
        ),
        sentence=(
            "Self-reported time is {claimed_us}; measured time is {measured_us}: the clock was"
            " tampered with."
        ),
        rows=(
            ("Self-reported time of the blocks", "{measured_us}", "{claimed_us}"),
            ("Blocks with an implausible time", "0 of {blocks}", "{short} of {blocks}"),
        ),
    ),
    "decoy_kernel": Meaning(
        title="Kernel without effect (decoy)",
        meaning=(
            "The candidate's kernels were replaced and its output stayed correct: something else"
            " computes it."
        ),
        rows=(
            ("Output with the kernels replaced", "wrong", "still correct"),
            ("Kernel launches replaced", "–", "{launches_skipped}"),
            ("Kernel launches in all calls", "–", "{launches}"),
        ),
    ),
    "degenerate_problem": Meaning(
        title="Degenerate problem",
        meaning=(
            "The reference's output does not depend on its inputs, a trivial answer passes, or a"
            " term of the answer is lost in rounding.  This blames the problem, not the candidate."
        ),
    ),
    "done_early": Meaning(
        title="Reported completion too early",
        meaning=(
            "The candidate said that it was done while the device was still working on its call."
        ),
        rows=(
            (
                "Device busy after the reply",
                "{reference_after_us} (reference)",
                "{candidate_after_us}",
            ),
            ("Work outside the measured time", "0 µs", "{missing_us}"),
        ),
    ),
    "event_timing": Meaning(
        title="CUDA events disagree with the clock",
        meaning=(
            "Timing by CUDA events inside the candidate's process gives another speedup than the"
            " trusted clock."
        ),
        rows=(
            ("Speedup", "{speedup} (trusted clock)", "{event_speedup} (events)"),
            ("Candidate per call", "{candidate_us}", "{event_candidate_us}"),
            ("Reference per call", "{reference_us}", "{event_reference_us}"),
        ),
    ),
    "fig_leaf": Meaning(
        title="Trivial kernel",
        meaning=(
            "Its kernels take less time than writing the outputs alone, make a few rows, or combine"
            " a few elements each of what the library made with less work than the reference."
        ),
        rows=(
            ("Time in its own kernels", "at least {write_us} (writing the outputs)", "{own_us}"),
            ("Time in library kernels", "–", "{library_us}"),
            ("Output elements, threads", "–", "{output_elements}, {threads}"),
        ),
    ),
    "ignores_weights": Meaning(
        title="Ignores weights",
        meaning=(
            "With other parameter values than all ones or zeros the answer is wrong: parameters are"
            " not used.  Or the answer kept numbers that came of old values, or lacks a term that"
            " has a faint part in it."
        ),
    ),
    "inputs_changed": Meaning(
        title="Inputs changed",
        meaning="The candidate overwrote its inputs; the reference does not.",
    ),
    "late_write": Meaning(
        title="Output written after completion",
        meaning=(
            "Output memory changed after the candidate had reported that it was done: work ran"
            " outside the clock."
        ),
    ),
    "lazy_optimisation": Meaning(
        title="Little work in own kernels",
        meaning=(
            "Most device time is in library kernels: the candidate's own kernels are a small part"
            " of the work, also without the matrix products that the reference leaves to the"
            " library, too."
        ),
        rows=(
            ("Time in its own kernels", "most of the work", "{own_us}"),
            ("Time in library kernels", "–", "{library_us}"),
        ),
    ),
    "library_work": Meaning(
        title="Library work",
        meaning=(
            "A share of the work is done by library kernels. Information only under the default"
            " policy."
        ),
        rows=(
            ("Time in library kernels", "–", "{library_us}"),
            ("Time in its own kernels", "–", "{own_us}"),
        ),
    ),
    "machine_state": Meaning(
        title="Unstable clocks",
        meaning=(
            "The device ran at different speeds during the measurement; the speedup may be off by"
            " as much."
        ),
        rows=(
            ("Probe kernel", "{expected_us}", "{before_us} before, {after_us} after"),
            ("Clock", "{reference_mhz} (reference)", "{candidate_mhz}"),
        ),
    ),
    "no_custom_kernel": Meaning(
        title="No kernel of its own",
        meaning="No kernel written by the candidate ran: the result comes from library code.",
        rows=(
            ("Launches of its own kernels in {calls} calls", "at least 1 per call", "{launches}"),
        ),
    ),
    "nondeterminism": Meaning(
        title="Not deterministic",
        meaning=(
            "The same inputs gave different bytes: atomics or a race. Allowed within tolerance."
        ),
    ),
    "not_triton": Meaning(
        title="Kernel not in Triton",
        meaning="Own kernels were written in another language than Triton.",
    ),
    "output_type": Meaning(
        title="Output is not a plain tensor",
        meaning="A call returned an object that imitates a tensor to deceive the comparison.",
    ),
    "precision_downgrade": Meaning(
        title="Lower precision than declared",
        meaning=(
            "The error is that of a narrower number format than the output's, or of such products."
        ),
        rows=(
            ("Precision", "{declared}", "{found}"),
            ("Largest relative error", "–", "{largest_rel_l2}"),
        ),
    ),
    "slow_reference": Meaning(
        title="Reference slower than usual",
        meaning=(
            "The reference took longer than in earlier measurements on this device: the speedup is"
            " too high."
        ),
        rows=(("Reference per call", "{usual_us}", "{quickest_us} at best"),),
    ),
    "speed_of_light": Meaning(
        title="Faster than physically possible",
        meaning="The measured time is below the minimum that moving the data takes on this device.",
        rows=(("Time per call", "at least {floor_us}", "{candidate_us}"),),
    ),
    "stale_output": Meaning(
        title="Answer of an earlier call",
        meaning=(
            "The output equals the answer to other inputs, or was never written: a cache instead of"
            " a computation."
        ),
    ),
    "static_hints": Meaning(
        title="Suspicious source",
        meaning="Patterns in the source that a reviewer should read. A hint alone is no proof.",
    ),
    "slower_when_profiled": Meaning(
        title="Profiled call slower than timed calls",
        meaning=(
            "The profiled call took longer than timed calls: other work may be done while it is"
            " watched."
        ),
        rows=(
            ("Profiled call", "about the same", "{profiled_us}"),
            ("Time per call", "–", "{candidate_us}"),
        ),
    ),
    "reaches_process": Meaning(
        title="Source that reaches into its process",
        meaning=(
            "The source names a way to rewrite its own process's account of whose kernels did the"
            " work."
        ),
    ),
    "unread_source": Meaning(
        title="Kernel that the source does not show",
        meaning=(
            "A kernel ran that is not defined in the source, as when code is hidden or generated."
        ),
    ),
}
