"""The live cluster: snapshots, pending and assumed pods."""
