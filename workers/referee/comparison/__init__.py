"""Comparison of outputs with expected ones: tensors in, the verdict on an output
out.  Knows no process.
"""
