"""STORE: figures over many attempts: roll-ups, and samples behind metrics and rewards."""
