"""STORE: jobs from submission to their end, and the devices that take them."""
