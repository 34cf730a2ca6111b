"""STORE: the only SQL.  One package for each kind of rows, in it one module per noun;
functions named for the question of a page or a stage.
"""
