"""Further tests of a candidate that passed: ablation, perturbed weights, profile,
compilation for a GPU.
"""
