"""The worker of an endpoint: calls of models and decisions of rollouts.  No torch,
no device, no candidate code.
"""
