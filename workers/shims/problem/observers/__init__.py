"""Observers of a reference: dispatch modes that read the operators of a call, and their helpers.

operators.py         the semantic key: operators of a call and the data flow between them
flops.py             work of a call
weight_work.py       work on the weights alone
closed_gates.py      single zeros by which a tensor is multiplied
operator_limits.py   limits that operators' values miss (limited_operators.py, extremes.py,
                     missed_counts.py, operator_arguments.py), of weights alone (weight_limits.py)
reference_limits.py  and of a call, with the other cases that it missed (softmax_arguments.py,
                     integer_uses.py, one_signed_products.py, divisions.py,
                     idle_operators.py, repeated_uses.py)
later_numbers.py     numbers on a device, read after the call
write_tracking.py    writes into memory that a call did not allocate itself
"""
