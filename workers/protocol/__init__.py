"""Messages, memory layout and paths that the referee and the untrusted processes
share: both import it.
"""
