"""STORE: problems, and the attempts of models on them: runs, trajectories, turns, candidates."""
