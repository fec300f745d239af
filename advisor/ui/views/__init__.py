"""The pages, by reader."""
