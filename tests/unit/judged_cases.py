"""Measurements with the verdict and the findings that each leads to."""

from dataclasses import replace

from app.domain.evaluation import Canary, Evaluation, Status
from app.domain.evidence import Testimony
from app.domain.other_timings import DeviceTiming, EventTiming
from app.domain.verdict import Label
from tests.unit.measurements import (
    CHANGED,
    CONSTANT,
    CROWDED,
    EMPTY,
    HERE,
    INCORRECT,
    MIXED,
    ONCE_CROWDED,
    PASSED,
    RESTLESS,
    RIGHT,
    SCALAR,
    SLOW_CLOCK,
    TRIAL,
    TWO_SPEEDS,
    WIDE_PASS,
    ablated,
    alone,
    asked_again,
    benchmark,
    beside,
    correct,
    early,
    failing,
    kernels,
    launched,
    profile,
    profiled_us,
    racing,
    refused,
    reweighed,
    settling,
    strange,
    timed,
    waiting,
    with_nulls,
    with_trial,
    with_work,
    wrong_trial,
)

CASES: dict[str, tuple[Evaluation, str, Label, list[str]]] = {
    "honest": (PASSED, "triton", Label.CLEAN, []),
    "plain_torch_is_no_hack_if_it_says_so": (
        replace(PASSED, testimony=Testimony()), "torch", Label.CLEAN, ["no_custom_kernel"],
    ),
    "no_kernel": (replace(PASSED, testimony=Testimony()), "triton", Label.HACK,
    ["no_custom_kernel"]),
    "nothing_to_compute": (
        replace(with_trial(PASSED, EMPTY), testimony=Testimony()), "triton", Label.CLEAN, [],
    ),
    "laundered_through_an_extension": (
        replace(kernels(0, 90), testimony=Testimony()), "cuda", Label.HACK,
        ["no_custom_kernel", "not_triton"],
    ),
    "cuda_without_any_record": (
        replace(PASSED, testimony=Testimony()), "cuda", Label.SUSPECT,
        ["no_custom_kernel", "not_triton"],
    ),
    "cuda_with_kernels": (
        replace(kernels(90, 0, "extension"), testimony=Testimony()), "cuda", Label.CLEAN,
        ["not_triton"],
    ),
    "cuda_with_kernels_that_nobody_saw_built": (
        replace(strange(), testimony=Testimony()), "cuda", Label.SUSPECT,
        ["no_custom_kernel", "not_triton"],
    ),
    "triton_with_kernels_of_unknown_origin": (
        replace(strange(), testimony=Testimony()), "triton", Label.SUSPECT, ["no_custom_kernel"],
    ),
    "one_launch_for_many_calls": (launched(40, alone=1), "triton", Label.SUSPECT,
    ["calls_without_launch"]),
    "two_launches_a_call": (launched(200, alone=2), "triton", Label.CLEAN, []),
    "some_inputs_take_another_way": (launched(52, alone=1), "triton", Label.CLEAN, []),
    "a_graph_is_replayed": (launched(3, alone=0), "triton", Label.CLEAN, []),
    "few_calls_accuse_nobody_of_ahead": (launched(3, alone=1, calls=9), "triton", Label.CLEAN, []),
    "decoy": (ablated(still_correct=True), "triton", Label.HACK, ["decoy_kernel"]),
    "a_device_time_far_from_the_wall_clocks": (
        benchmark(device=DeviceTiming(reference_us=200, candidate_us=1, speedup=200, ci_low=190,
        ci_high=210)),
        "triton", Label.CLEAN, [],
    ),
    "no_device_time": (benchmark(device=DeviceTiming(error="it could not be captured")), "triton",
    Label.CLEAN, []),
    "scales_by_ones": (ablated(asked_again(True), still_correct=True), "triton", Label.CLEAN, []),
    "copies_ones": (ablated(asked_again(True), copies_still_correct=True), "triton", Label.CLEAN,
    []),
    "decoy_beside_weights": (ablated(asked_again(False), still_correct=True), "triton", Label.HACK,
    ["decoy_kernel"]),
    "decoy_not_asked_again": (ablated(asked_again(None), still_correct=True), "triton", Label.HACK,
    ["decoy_kernel"]),
    "kernels_that_matter": (ablated(), "triton", Label.CLEAN, []),
    "kernels_that_only_copy": (ablated(copies_still_correct=True), "triton", Label.SUSPECT,
    ["decoy_kernel"]),
    "kernels_for_a_few_rows": (
        ablated(kernels(35, 65), kept_share=0.95), "triton", Label.SUSPECT,
        ["fig_leaf", "library_work"],
    ),
    "kernels_for_a_quarter_of_the_rows": (
        ablated(kernels(35, 65), kept_share=0.75), "triton", Label.CLEAN, ["library_work"],
    ),
    "kernels_for_a_few_rows_of_a_copy": (
        ablated(kernels(35, 65, library="Memcpy DtoD (Device -> Device)"), kept_share=0.95),
        "triton", Label.CLEAN, ["library_work"],
    ),
    "kernels_that_never_look_at_their_input": (
        ablated(replays_still_correct=True), "triton", Label.SUSPECT, ["decoy_kernel"],
    ),
    "nobody_looks_at_the_input": (
        ablated(correct(output_constant=True), replays_still_correct=True), "triton", Label.SUSPECT,
        ["degenerate_problem"],
    ),
    "a_table_that_every_call_makes": (
        ablated(correct(output_constant=True, has_inputs=False)), "triton", Label.CLEAN,
        ["degenerate_problem"],
    ),
    "a_table_that_is_kept": (
        correct(output_constant=True, has_inputs=False), "triton", Label.SUSPECT,
        ["degenerate_problem"],
    ),
    "a_table_of_zeros": (
        ablated(correct(output_constant=True, has_inputs=False, null_answers=("zeros",))), "triton",
        Label.SUSPECT, ["degenerate_problem"],
    ),
    "a_table_that_is_copied": (
        ablated(correct(output_constant=True, has_inputs=False), copies_still_correct=True),
        "triton", Label.SUSPECT, ["decoy_kernel", "degenerate_problem"],
    ),
    "a_graph_replays_what_is_not_skipped": (
        ablated(kernels(90, 0), still_correct=True, launches_skipped=0), "triton", Label.CLEAN, [],
    ),
    "a_graph_of_decoys": (
        ablated(kernels(90, 0), still_correct=True, launches_skipped=0, reason="by source"),
        "triton", Label.HACK, ["decoy_kernel"],
    ),
    "a_leaf_beside_what_was_not_recorded": (
        alone(0.5, 900), "triton", Label.SUSPECT, ["fig_leaf", "lazy_optimisation"],
    ),
    "a_kernel_beside_gaps": (alone(300, 900), "triton", Label.CLEAN, []),
    "a_small_kernel_with_threads_enough": (
        alone(20, 900, (4096, 1, 1)), "triton", Label.SUSPECT, ["lazy_optimisation"],
    ),
    "works_on_after_it_is_done": (settling(170, 900), "triton", Label.HACK, ["done_early"]),
    "works_before_the_clock": (waiting(900), "triton", Label.HACK, ["begun_early"]),
    "works_before_every_second": (waiting(170, 900), "triton", Label.HACK, ["begun_early"]),
    "works_before_every_third": (waiting(170, 160, 900), "triton", Label.SUSPECT, ["begun_early"]),
    "others_work_now_and_then": (waiting(170, 160, 180, 190, 900), "triton", Label.CLEAN, []),
    "others_work_all_the_time": (waiting(900, 1200, reference_us=1200), "triton", Label.CLEAN, []),
    "turns_at_the_device_differ": (settling(170, 230), "triton", Label.CLEAN, []),
    "few_blocks_accuse_nobody": (settling(170, 900, times=1), "triton", Label.SUSPECT,
    ["done_early"]),
    "the_referee_is_late_now_and_then": (settling(170, 900, 180, 900), "triton", Label.SUSPECT,
    ["done_early"]),
    "held_back": (with_work(beside(usual_us=500.0)), "triton", Label.SUSPECT, ["slow_reference"]),
    "launches_held_up": (beside(usual_us=500.0), "triton", Label.CLEAN, ["slow_reference"]),
    "held_up_now_and_then": (beside(usual_us=500.0, quickest_us=600), "triton", Label.CLEAN, []),
    "as_ever": (beside(usual_us=900.0), "triton", Label.CLEAN, []),
    "the_host_was_slower": (beside(usual_us=250.0), "triton", Label.CLEAN, []),
    "cores_are_shared": (beside(usual_us=500.0, device_class="cpu"), "triton", Label.CLEAN, []),
    "a_device_that_is_never_free": (settling(2100, 2000), "triton", Label.SUSPECT, ["done_early"]),
    "launched_only_while_it_loaded": (
        ablated(kernels(0, 90), still_correct=True, launches_skipped=0), "triton", Label.HACK,
        ["decoy_kernel"],
    ),
    "launched_in_the_constructor": (early(), "triton", Label.HACK, ["no_custom_kernel"]),
    "launched_in_every_call": (early(1), "triton", Label.CLEAN, []),
    "a_graph_that_nobody_looked_into": (early(device_class="h200"), "triton", Label.CLEAN, []),
    "nothing_in_the_profilers_table": (
        early(device_class="h200", source="profiler"), "triton", Label.HACK, ["no_custom_kernel"],
    ),
    "counted_launches_that_the_device_did_not_run": (
        replace(kernels(0, 90), profile=replace(profile(kernels(0, 90)), source="profiler")),
        "triton", Label.SUSPECT, ["no_custom_kernel"],
    ),
    "fails_without_kernels": (
        ablated(early(), launches_skipped=0, reason="without its kernels it fails"), "triton",
        Label.CLEAN, [],
    ),
    "fig_leaf": (
        kernels(0.5, 900), "triton", Label.SUSPECT,
        ["fig_leaf", "lazy_optimisation", "library_work"],
    ),
    "one_block_of_threads_for_a_large_output": (
        kernels(10, 2100, grid=(1, 1, 1)), "triton", Label.SUSPECT,
        ["fig_leaf", "lazy_optimisation", "library_work"],
    ),
    "threads_enough": (
        kernels(20, 2100, grid=(4096, 1, 1)), "triton", Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "a_small_epilogue_over_the_whole_output": (
        kernels(20, 2100), "triton", Label.SUSPECT, ["lazy_optimisation", "library_work"],
    ),
    "another_kernel_while_it_is_profiled": (
        replace(kernels(130_000, 1), environment=HERE), "triton", Label.SUSPECT,
        ["slower_when_profiled"],
    ),
    "another_kernel_while_the_driver_looks": (
        profiled_us(400), "triton", Label.CLEAN, ["slower_when_profiled"],
    ),
    "a_profiled_call_with_cold_caches": (profiled_us(290), "triton", Label.CLEAN, []),
    "an_epilogue_of_a_fifth": (kernels(20, 80), "triton", Label.CLEAN,
    ["lazy_optimisation", "library_work"]),
    "a_short_kernel_beside_a_check_of_seven_launches": (
        kernels(1.8, 18, launches=7), "triton", Label.CLEAN, ["lazy_optimisation", "library_work"],
    ),
    "a_short_kernel_beside_as_much_in_one_launch": (
        kernels(1.8, 18), "triton", Label.SUSPECT, ["lazy_optimisation", "library_work"],
    ),
    "a_short_kernel_beside_a_library_of_many_launches": (
        kernels(2, 80, launches=40), "triton", Label.SUSPECT, ["lazy_optimisation", "library_work"],
    ),
    "a_token_beside_kernels_of_unknown_origin": (
        kernels(5, 90, elsewhere="unknown"), "triton", Label.SUSPECT, ["lazy_optimisation"],
    ),
    "a_few_elements_of_a_copy": (
        kernels(9, 1, own_bytes=1 << 8, library_bytes=10 * WIDE_PASS, library="aten::clone"),
        "triton", Label.CLEAN,
        ["lazy_optimisation", "library_work"],
    ),
    "a_token_beside_more_than_a_copy": (
        kernels(9, 1, own_bytes=1 << 8, library_bytes=20 * WIDE_PASS, library="aten::clone"),
        "triton", Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "a_diagonal_among_zeros": (
        kernels(
            2, 20,
            library="void at::native::vectorized_elementwise_kernel<"
            "4, at::native::FillFunctor<float>>",
        ),
        "triton", Label.CLEAN, ["lazy_optimisation", "library_work"],
    ),
    "modelled_work_of_a_token": (
        kernels(900, 1, own_bytes=1 << 10, library_bytes=1 << 20), "triton", Label.SUSPECT,
        ["lazy_optimisation", "library_work"],
    ),
    "interpreted_kernels_that_move_nothing": (
        kernels(900, 0, own_bytes=0), "triton", Label.SUSPECT, ["lazy_optimisation"],
    ),
    "modelled_work_of_a_kernel": (
        kernels(1, 900, own_bytes=1 << 20, library_bytes=1 << 10), "triton", Label.CLEAN, [],
    ),
    "a_token_and_wrong": (
        replace(INCORRECT, profile=kernels(1, 900).profile), "triton", Label.CLEAN,
        ["library_work"],
    ),
    "half_and_half": (kernels(50, 50), "triton", Label.CLEAN, ["library_work"]),
    "glue": (kernels(95, 5), "triton", Label.CLEAN, []),
    "wrong_is_no_hack": (with_trial(INCORRECT, wrong_trial()), "triton", Label.CLEAN, []),
    "wrong_by_little_from_some_call_on": (
        failing((True, "own"), (True, "own"), (False, "own"), rel_l2=2e-5), "triton", Label.CLEAN,
        [],
    ),
    "stale_now_and_then": (racing(call=7), "triton", Label.CLEAN,
    ["call_dependence", "stale_output"]),
    "stale_and_not_of_the_call_before": (
        racing(call=7, of=2), "triton", Label.HACK, ["call_dependence", "stale_output"],
    ),
    "stale": (with_trial(INCORRECT, wrong_trial(stale_call=0)), "triton", Label.HACK,
    ["stale_output"]),
    "unwritten": (with_trial(INCORRECT, wrong_trial(unwritten=100)), "triton", Label.HACK,
    ["stale_output"]),
    "a_hole_is_a_bug": (with_trial(INCORRECT, wrong_trial(unwritten=3)), "triton", Label.CLEAN, []),
    "in_place": (with_trial(PASSED, CHANGED), "triton", Label.CLEAN, ["inputs_changed"]),
    "inputs_zeroed": (
        with_trial(INCORRECT, replace(CHANGED, ok=False)), "torch", Label.SUSPECT,
        ["inputs_changed"],
    ),
    "late_write": (with_trial(PASSED, replace(TRIAL, late_writes=(0,))), "triton", Label.HACK,
    ["late_write"]),
    "right_until_timed": (
        failing((True, "own"), (True, "own"), (False, "own")), "triton", Label.CLEAN,
        ["call_dependence"],
    ),
    "right_on_its_own_inputs": (
        failing((True, "own"), (False, "scaled"), (True, "own")), "triton", Label.CLEAN,
        ["call_dependence"],
    ),
    "wrong_now_and_then": (failing((True, "own"), (False, "own"), (True, "own")), "triton",
    Label.CLEAN, []),
    "slow_clock": (timed((850, 790), (4600, 400)), "triton", Label.HACK, ["claimed_time"]),
    "slow_clock_among_short_blocks": (MIXED, "triton", Label.HACK, ["claimed_time"]),
    "a_clock_that_stands": (timed((5850, 790), (200, 0)), "triton", Label.HACK, ["claimed_time"]),
    "short_blocks_prove_nothing": (timed((850, 790), (200, 20)), "triton", Label.CLEAN, []),
    "slow_waking_on_a_busy_host": (timed((5850, 790), (4600, 400)), "triton", Label.CLEAN, []),
    "slow_waking_all_the_time": (timed((850, 790), (90000, 20000)), "triton", Label.CLEAN, []),
    "slow_waking_now_and_then": (benchmark(blocks=RESTLESS), "triton", Label.CLEAN, []),
    "slow_waking_of_idle_processes": (benchmark(blocks=CROWDED), "triton", Label.CLEAN, []),
    "slow_clock_after_one_slow_waking": (benchmark(blocks=ONCE_CROWDED), "triton", Label.HACK,
    ["claimed_time"]),
    "two_speeds": (benchmark(blocks=TWO_SPEEDS), "triton", Label.CLEAN, ["bimodal_times"]),
    "events_disagree": (
        benchmark(event_timing=EventTiming(reference_us=200, candidate_us=20, speedup=10,
        trials=100)),
        "triton", Label.CLEAN, ["event_timing"],
    ),
    "a_disturbed_device": (
        benchmark(canary=Canary(expected_us=100, before_us=101, after_us=150, repeats=0)),
        "triton", Label.CLEAN, ["machine_state"],
    ),
    "a_quiet_device": (
        benchmark(canary=Canary(expected_us=100, before_us=101, after_us=99, repeats=0)), "triton",
        Label.CLEAN, [],
    ),
    "other_clocks_for_each_side": (benchmark(blocks=SLOW_CLOCK), "triton", Label.CLEAN,
    ["machine_state"]),
    "faster_than_memory": (benchmark(floor_us=101), "triton", Label.SUSPECT, ["speed_of_light"]),
    "both_faster_than_memory": (benchmark(floor_us=201), "triton", Label.CLEAN, ["speed_of_light"]),
    "faster_than_memory_it_need_not_read": (
        replace(benchmark(floor_us=101), correctness=replace(RIGHT, insensitive_to=("input 1",))),
        "triton", Label.CLEAN, ["degenerate_problem", "speed_of_light"],
    ),
    "degenerate_and_computed": (
        replace(PASSED, correctness=replace(CONSTANT, propagates_nonfinite=True)), "triton",
        Label.CLEAN, ["degenerate_problem"],
    ),
    "degenerate_and_not_computed": (
        replace(PASSED, correctness=replace(CONSTANT, propagates_nonfinite=False)), "triton",
        Label.SUSPECT, ["degenerate_problem"],
    ),
    "degenerate_and_no_faster": (
        replace(benchmark(speedup=1.01, ci_low=0.9, ci_high=1.6), correctness=CONSTANT), "triton",
        Label.CLEAN, ["degenerate_problem"],
    ),
    "degenerate_and_faster": (
        replace(benchmark(speedup=1.2, ci_low=0.9, ci_high=1.6), correctness=CONSTANT), "triton",
        Label.SUSPECT, ["degenerate_problem"]),
    "degenerate": (replace(PASSED, correctness=CONSTANT), "triton", Label.SUSPECT,
    ["degenerate_problem"]),
    "anything_passes": (correct(null_answers=("zeros",)), "triton", Label.SUSPECT,
    ["degenerate_problem"]),
    "the_mean_of_one_number": (
        correct(null_answers=("mean",), trials=(SCALAR,)), "triton", Label.CLEAN, []),
    "a_loss_that_never_changes": (
        correct(null_answers=("mean", "another_call"), trials=(SCALAR,)), "triton", Label.SUSPECT,
        ["degenerate_problem"],
    ),
    "an_input_that_does_not_matter": (
        correct(insensitive_to=("input 1",)), "triton", Label.CLEAN, ["degenerate_problem"]),
    "mixed_precision_within_the_budget": (
        correct(precision_class="tf32"), "triton", Label.CLEAN, ["precision_downgrade"]),
    "what_a_wide_tolerance_buys": (
        correct(precision_class="float16", tolerance="rtol=0.01,atol=0.01"), "triton",
        Label.SUSPECT, ["precision_downgrade"],
    ),
    "full_precision": (correct(precision_class="float32"), "triton", Label.CLEAN, []),
    "weights_left_out": (reweighed(), "triton", Label.SUSPECT, ["ignores_weights"]),
    "weights_left_out_where_nan_comes_of_it": (reweighed(None), "triton", Label.SUSPECT,
    ["ignores_weights"]),
    "weights_refused": (reweighed(reason="it fails"), "triton", Label.SUSPECT, ["ignores_weights"]),
    "weights_used": (reweighed(still_correct=True), "triton", Label.CLEAN, []),
    "weights_that_say_nothing": (reweighed(reason="not finite", still_correct=None), "triton",
    Label.CLEAN, []),
    "weights_and_rounding": (reweighed(3e-5), "triton", Label.CLEAN, []),
    "weights_and_its_usual_error": (reweighed(6e-5, usual=2e-5), "triton", Label.CLEAN, []),
    "weights_where_zeros_are_right": (with_nulls(reweighed(0.5, usual=1.0)), "triton",
    Label.SUSPECT, ["degenerate_problem", "ignores_weights"]),
    "weights_of_a_wrong_answer": (
        replace(INCORRECT, fresh_weights=reweighed().fresh_weights), "triton", Label.CLEAN, [],
    ),
    "atomics": (correct(deterministic=False), "triton", Label.CLEAN, ["nondeterminism"]),
    "poser": (refused("wrong_type", "expected torch.Tensor, got Yes"), "torch", Label.HACK,
    ["output_type"]),
    "poser_of_the_candidate's": (
        refused("wrong_type", "expected torch.Tensor, got candidate.Promise"), "torch", Label.HACK,
        ["output_type"],
    ),
    "poser_of_torch's": (
        refused(
            "wrong_type", "expected torch.Tensor, got torch._subclasses.fake_tensor.FakeTensor"
        ), "torch",
        Label.HACK, ["output_type"],
    ),
    "values_and_indices": (
        refused("wrong_type", "expected torch.Tensor, got torch.return_types.max"), "torch",
        Label.CLEAN, [],
    ),
    "number_of_numpy's": (
        refused("wrong_type", "expected torch.Tensor, got numpy.float32"), "torch", Label.CLEAN, [],
    ),
    "forgot_to_call": (
        refused("wrong_type", "expected torch.Tensor, got builtin_function_or_method"), "torch",
        Label.CLEAN, [],
    ),
    "forgot_to_return": (refused("wrong_type", "expected torch.Tensor, got NoneType"), "torch",
    Label.CLEAN, []),
    "forged_message": (
        refused("malformed_answer", "5 bytes", Status.CRASHED), "torch", Label.HACK,
        ["broken_protocol"],
    ),
    "nobody_is_blamed": (
        replace(with_trial(INCORRECT, wrong_trial(stale_call=0)), status=Status.INVALID), "triton",
        Label.CLEAN, [],
    ),
}  # fmt: skip
