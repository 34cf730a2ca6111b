"""STORE: measurements of jobs, their verdicts and profiles, and the row that readers share."""
