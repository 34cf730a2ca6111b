"""Confined processes as the referee drives them: handle, sessions, mapped memory,
pools.  Knows no evaluation.
"""
