"""The lake: the only module that knows how tables lie on disk."""
