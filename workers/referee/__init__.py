"""EVALUATE: the trusted process of one device.  It owns the inputs, the comparison and the clock,
and never runs, imports or unpickles data from a candidate.

The process
    serve.py                       receives jobs, sends evaluations; a thread per
                                   evaluation in flight
    resources.py                   state that lives as long as the device: zygotes,
                                   pools, lock, clock
    host/                          the device: lock, memory, health, stopwatch, cores
    processes/process_handle.py    a confined process and its mailbox; the only way to where a
                                   candidate's code runs
    processes/process_session.py   one evaluation's share of a process: its arena and its outputs
    processes/warm_pool.py         candidate processes with a GPU context, started ahead of time
    processes/reference_pool.py    a process per recent problem, shared by evaluations

From a job to an evaluation
    measure.py                     entry point for both kinds of problem
    admission.py                   conditions before a candidate runs: source, backend, memory
    shortages.py                   times of processes in which a library lacked memory are not used
    evaluate.py                    attempts, and the stages before a candidate is loaded
    candidate_stages.py            the stages with the candidate, in order: benchmark, products,
                                   profile, ablation, weights
    evaluate_cases.py              the stages for each case of a problem by cases, merged
    progress.py                    one attempt to evaluate a job, with its measurements
    session/setup.py               loads both sides; parameters and arenas
    session/memory_needs.py        device memory that an evaluation takes, to be reserved beforehand
    session/context.py             everything that belongs to one evaluation from then on
    session/draws.py               fresh inputs (batches.py) and expected outputs
    session/questions.py           questions about an answer to the reference's process
    session/streamed_truth.py      expected outputs where memory holds a single call
    session/unchanged_inputs.py    inputs that a candidate has to change, left as they were
    session/varying_outputs.py     outputs of other shapes: the candidate's, or the problem's
    session/call_runner.py         calls of both sides: fill, freeze, run, deliver
    session/first_calls.py         the call that compiles, and tests without a clock
    session/variant_calls.py       calls on inputs that the problem's distribution seldom has
    session/verification.py        comparison of every output
    session/record.py              findings over all calls
    comparison/correctness.py      is an output right, relative to fp64?  (output_errors.py,
                                   nearness.py)
    comparison/peer_rules.py       the same outputs by the rules of other evaluators
    timing/paired_benchmark.py     rounds of ABBA groups (blocks.py) on a quiet host (quiet_host.py)
    timing/sizing.py               number of calls, input sets and groups
    timing/measurements.py         time per call, from blocks (estimators.py)
    timing/stopping.py             stopping rule, ratio and confidence interval
    timing/unpaired.py             time per call without a reference (problems by cases)
    timing/device_time.py          speedup by the device's own time, from CUDA graphs
    timing/output_mapping.py       addresses of outputs on a GPU, to read them in place
    probes/call_profile.py         kernels and operators of one call
    probes/narrow_products.py      are products in 16 bits or TF32 where a sum hides that?
    probes/faint_terms.py          are terms left out that are a faint part of the answer?
    probes/ablation.py             does the answer depend on the candidate's kernels?
    probes/constant_answers.py     is it the same for other inputs, where they write it?
    probes/perturbed_weights.py    does it depend on weights that are constant before training?
                                   (weight_values.py)
    probes/aot_compile.py          do the kernels compile for a GPU?  (CPU device)
    session/fault_attribution.py      fault attribution: candidate, problem or referee
    conclusion.py                  the evaluation, from all measurements
    wrong_output.py                error messages for wrong outputs

README.md beside this file has the protocol and its limits.
"""
