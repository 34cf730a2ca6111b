"""Inputs with values that the problem's distribution seldom has.

varied_inputs.py    variants that depend on the inputs alone
reaching_inputs.py  plan of those that depend on the reference, made once for the problem
improving_changes.py  changes with which a call misses fewer limits
planned_inputs.py   inputs changed by the plan
input_changes.py    scaled, negated, shuffled, with values that the reference names
redrawn_inputs.py   those that are the same in every draw, drawn anew (blended_tables.py,
                    related_integers.py)
iterated_inputs.py  those on which every step of an iteration tells
telling_inputs.py   those on which its last steps tell, found by trial
aligned_inputs.py   rows in the order of a layer's weights
levelled_inputs.py  most elements of two magnitudes
local_changes.py    changes to a small part of a tensor
input_domain.py     test whether changed inputs are in the problem's domain (broken_ties.py)
"""
