"""Remediation: ranked options for a slowed container."""
