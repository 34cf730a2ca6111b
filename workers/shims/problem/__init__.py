"""Code that runs beside a problem's own code alone, in the process of a reference: draws of inputs,
expected outputs, and the description of the problem.
"""
