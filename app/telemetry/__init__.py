"""Telemetry of a running service: log lines (logs), metrics (metrics) and traces (tracing)."""
