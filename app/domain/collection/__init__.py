"""COLLECT: pure parts of collection: specification, tree of nodes, decisions,
budgets, shapes of model calls.
"""
