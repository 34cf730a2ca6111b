"""Changes to Triton's interpreter, so that a kernel has the properties on the CPU device that it has
on a GPU.  Each module has an `install`, called before a candidate's source is executed.
"""
