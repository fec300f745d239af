"""Settings, logs and checks of the configuration."""
