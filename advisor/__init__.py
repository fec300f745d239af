"""Turn predictions into advice; nothing is trained here."""
