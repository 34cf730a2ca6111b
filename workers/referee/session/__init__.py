"""One evaluation: set-up, fresh inputs, calls of both sides, verification,
attribution of failures.
"""
