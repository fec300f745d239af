"""Pages for capacity planners."""
