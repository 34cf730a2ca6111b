"""Messages, memory layout, problem specification and limits of rounding: the only package that
trusted and untrusted processes both import.
"""
