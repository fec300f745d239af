"""What co-location does to a container: pressure, its baseline, slowdown, profiles."""
