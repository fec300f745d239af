"""The diagnosis job."""
