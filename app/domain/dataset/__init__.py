"""EXPORT: choice of attempts for a dataset, and the content of its rows."""
