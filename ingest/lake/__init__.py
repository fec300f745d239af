"""The lake: tables as files, committed by a log."""
