"""Reports of the impact of advice."""
