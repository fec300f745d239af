"""What every HTTP route shares: authentication, limits, CSRF, health, OpenAPI."""
