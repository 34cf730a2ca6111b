"""Changes to Triton's interpreter, so that kernels have properties of a GPU on the CPU device.

Each module has an `install`, which is called before a candidate's source is executed.
"""
