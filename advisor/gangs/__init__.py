"""Gangs: groups of pods that start together or not at all: joint score, reservation, life of a reservation."""
