"""Processes of one evaluation: their start, inputs, calls and verification, and the pools that lend them."""
