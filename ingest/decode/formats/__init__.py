"""Message formats: one decoder each, and their registry."""
