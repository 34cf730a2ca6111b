"""RL on real kernels: a grammar of Triton kernels, their stored evaluations, a tiny
policy, and its training.

    problems          problems, each with the kernels that solve it whole or in part
    tricks            candidates that cheat, around such a kernel
    grammar           choices of a kernel, and the source that they make
    evaluations       real evaluations of every source of the grammar, by the evaluator and by
                      KernelGYM's checks
    kernelgym_checks  KernelGYM's checks as documented, in a process for each candidate
    policy            a transformer over the grammar's tokens
    rollouts          dialogues of the policy, with stored or live evaluations
    training          credit, rejection and update of one step
    utilisation       share of the time in which the GPU computes meanwhile
    figures           means over seeds with intervals, and plots
    report            figures and plots of all trainings

Entry point: `python -m tests.bench.rl_proof`.

    chat_model        a chat model with random weights, whose logprobs can be computed again
    chat_server       an OpenAI-compatible server around it

Entry point: `python -m tests.bench.model_server`.
"""
