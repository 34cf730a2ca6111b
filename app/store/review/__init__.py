"""STORE: judgements, comments and tags of people."""
