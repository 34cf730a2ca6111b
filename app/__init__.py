"""Assay's application side: any machine, credentials, no torch.  See README.md for
the line through the stages.
"""
