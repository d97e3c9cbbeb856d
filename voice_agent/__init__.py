"""A voice agent that answers as fast as a person."""
