"""What every page shares: login, sessions, headers, rendering."""
