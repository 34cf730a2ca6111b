"""RL on real kernels: a grammar of Triton kernels, their stored evaluations, a tiny
policy, and its training.

    grammar           problems, choices of a kernel, sources; tricks
    evaluations       real evaluations of every source of the grammar, by the evaluator and by
                      KernelGYM's checks
    kernelgym_checks  KernelGYM's checks as documented, in a process for each candidate
    policy            a transformer over the grammar's tokens
    rollouts          dialogues of the policy, with stored or live evaluations
    training          credit, rejection and update of one step
    figures           means over seeds with intervals, plots

Entry point: `python -m tests.bench.rl_proof`.
"""
