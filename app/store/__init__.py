"""STORE: the only SQL.  One module per noun; functions named for the question of a
page or a stage.
"""
