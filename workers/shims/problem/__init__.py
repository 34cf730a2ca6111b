"""Code that runs beside a problem's own code alone, in the process of a reference
(workers/shims/reference.py).

The problem, described once
    reference_problem.py    its module, a model for each session, and its spec (ProblemSpec)
    cases.py                model of one case of a problem by cases, which knows the answer
    problem_forms.py        forms of inputs and outputs that can be evaluated
    seeding.py              draws under the referee's seed, even if the problem seeds itself
    memory_estimate.py      device memory: an estimate before any is used, and a measurement
    model_checks.py         time of a call, mode, spread of answers, room for a twin
    input_sensitivity.py    inputs and parameters that do not affect the answer
    constant_parameters.py  parameters that a candidate may omit until they are trained
    observers/              facts that are read from the operators of a call

A session: one evaluation's share of the process
    reference_session.py    its model, twin and arena
    input_slots.py          inputs drawn into slots: the problem's own, and variants of them
    graph_replay.py         draws of small problems as a CUDA graph
    answers/                the expected outputs, and which others are right
    inputs/                 inputs with values that the problem's distribution seldom has
"""
