"""Feature jobs: which hours to compute, and the local runner."""
