"""Foreign and measured traces to our records, units converted once; one module a trace."""
