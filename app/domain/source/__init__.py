"""Sources of candidates and references as text: read and compared, never run."""
