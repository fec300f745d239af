"""Budget status, alerts and webhook."""
