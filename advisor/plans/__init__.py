"""Remediation plans: drafted, reviewed, approved, exported, followed."""
