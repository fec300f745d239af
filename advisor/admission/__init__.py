"""Admission: preferred node affinity for pods that are being created, from the score table."""
