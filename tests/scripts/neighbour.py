"""Lies next to the scripts; they can import it."""
