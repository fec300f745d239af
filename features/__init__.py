"""What co-location does to a container: pressure, its own normal, slowdown, profiles."""
