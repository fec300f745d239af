"""Proposals to move containers: what is handed to whoever carries one out."""
