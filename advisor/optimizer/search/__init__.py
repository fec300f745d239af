"""The optimiser's search: annealing, exact solver, compiled moves."""
