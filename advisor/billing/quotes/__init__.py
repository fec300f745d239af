"""Cost estimates before a container runs."""
