"""STORE: datasets: inputs of an export, and the rows that it wrote."""
