"""STORE: people and programs with access, and the log of their changes."""
