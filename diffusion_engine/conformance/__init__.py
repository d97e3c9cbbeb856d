"""Puts an OpenAI-compatible endpoint through the contract that our own server keeps, with the official client."""
