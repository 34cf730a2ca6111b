"""The device and its host: lock, memory, health, stopwatch, cores.  Imports nothing
else of the referee.
"""
