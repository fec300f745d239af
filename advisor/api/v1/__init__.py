"""The management API, one module per noun."""
