"""Code that runs beside a problem's own code alone, in the process of a reference
(workers/shims/reference.py).

The problem, described once
    reference_problem.py    its module, a model for each session, and its spec (ProblemSpec)
    cases.py                model of one case of a problem by cases, which knows the answer
    problem_forms.py        forms of inputs and outputs that can be evaluated
    seeding.py              draws under the referee's seed, even if the problem seeds itself
    memory_estimate.py      device memory: an estimate before any is used, and a measurement
    model_checks.py         time of a call, mode, spread of answers, room for a twin
    pieces.py               computation along the batch, if its rows are independent
    changed_inputs.py       inputs that the reference changes: a part of its answer
    input_sensitivity.py    inputs and parameters that do not affect the answer
    constant_parameters.py  parameters that a candidate may omit until they are trained, also those
                            that closed_gates.py, weight_work.py and iterated_inputs.py find
    tf32_convolutions.py    error of the answer if convolutions are in TF32
    flops.py                work of a call
    operators.py            the semantic key: operators of a call and the data flow between them

A session: one evaluation's share of the process
    reference_session.py    its model, twin and arena
    input_slots.py          inputs drawn into slots: the problem's own, and variants of them
    graph_replay.py         draws of small problems as a CUDA graph (write_tracking.py)
    expected_outputs.py     the reference's outputs, and the expected ones
    true_answer.py          the true answer, by a twin in fp64
    plain_convolutions.py   its convolutions, without cuDNN where that is faster
    rounding.py             the answer with an error in every operation
    equivalent_answers.py   elements of a wrong answer that ties or rounding make right

Inputs with values that the problem's distribution seldom has
    varied_inputs.py        variants that depend on the inputs alone
    reaching_inputs.py      plan of those that depend on the reference, made once for the problem
    reference_limits.py     cases that its operators distinguish and a call missed (extremes.py,
                            softmax_arguments.py, integer_uses.py)
    planned_inputs.py       inputs changed by the plan
    input_changes.py        scaled, negated, shuffled, with values that the reference names
    redrawn_inputs.py       those that are the same in every draw, drawn anew (blended_tables.py)
    iterated_inputs.py      those on which every step of an iteration tells
    telling_inputs.py       those on which its last steps tell, found by trial
    aligned_inputs.py       rows in the order of a layer's weights
    local_changes.py        changes to a small part of a tensor
    input_domain.py         test whether changed inputs are in the problem's domain
"""
