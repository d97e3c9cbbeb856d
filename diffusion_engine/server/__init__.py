"""The HTTP API. Nothing below it imports it."""
