"""The refresher: live state and snapshots."""
