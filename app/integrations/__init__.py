"""ENQUEUE: reward functions in the form that trainers want.

`verl` and `trl` are handed to the trainer of that name; neither imports it.  OpenRLHF and slime ask
a URL instead (app.web.compat.trainers).  The service is found at KERNEL_ASSAY_URL with
KERNEL_ASSAY_TOKEN, unless `url` is given, else on this machine.

One rule for all: a result lost to an infrastructure fault is missing (None, or an error that the
trainer takes for a lost sample), and never zero.  A zero is a candidate's own.
"""
