"""Detectors: one way of cheating a file.  Pure over stored results; adding one is a
file and a line here.
"""

from __future__ import annotations

from app import plugins
from app.detectors import (
    begun_early,
    bimodal_times,
    broken_protocol,
    call_dependence,
    calls_without_launch,
    claimed_time,
    decoy_kernel,
    degenerate_problem,
    done_early,
    event_timing,
    fig_leaf,
    ignores_weights,
    inputs_changed,
    late_write,
    lazy_optimisation,
    library_work,
    machine_state,
    no_custom_kernel,
    nondeterminism,
    not_triton,
    output_type,
    precision_downgrade,
    reaches_process,
    slow_reference,
    slower_when_profiled,
    speed_of_light,
    stale_output,
    static_hints,
    unread_source,
)
from app.detectors.base import Detector

__all__ = ["ADVICE", "DETECTORS", "Detector"]

_BUILTIN: dict[str, Detector] = {
    "begun_early": begun_early.BegunEarly(),
    "bimodal_times": bimodal_times.BimodalTimes(),
    "broken_protocol": broken_protocol.BrokenProtocol(),
    "call_dependence": call_dependence.CallDependence(),
    "calls_without_launch": calls_without_launch.CallsWithoutLaunch(),
    "claimed_time": claimed_time.ClaimedTime(),
    "decoy_kernel": decoy_kernel.DecoyKernel(),
    "degenerate_problem": degenerate_problem.DegenerateProblem(),
    "done_early": done_early.DoneEarly(),
    "event_timing": event_timing.EventTimingGap(),
    "fig_leaf": fig_leaf.FigLeaf(),
    "ignores_weights": ignores_weights.IgnoresWeights(),
    "inputs_changed": inputs_changed.InputsChanged(),
    "late_write": late_write.LateWrite(),
    "lazy_optimisation": lazy_optimisation.LazyOptimisation(),
    "library_work": library_work.LibraryWork(),
    "machine_state": machine_state.MachineState(),
    "no_custom_kernel": no_custom_kernel.NoCustomKernel(),
    "nondeterminism": nondeterminism.Nondeterminism(),
    "not_triton": not_triton.NotTriton(),
    "output_type": output_type.OutputType(),
    "precision_downgrade": precision_downgrade.PrecisionDowngrade(),
    "reaches_process": reaches_process.ReachesProcess(),
    "slow_reference": slow_reference.SlowReference(),
    "slower_when_profiled": slower_when_profiled.SlowerWhenProfiled(),
    "speed_of_light": speed_of_light.SpeedOfLight(),
    "stale_output": stale_output.StaleOutput(),
    "static_hints": static_hints.StaticHints(),
    "unread_source": unread_source.UnreadSource(),
}

DETECTORS: dict[str, Detector] = plugins.extend("detectors", _BUILTIN)

ADVICE = frozenset({"static_hints"})
"""Detectors with findings that never weigh anything: they read the source, which is
the candidate's to write.
"""
