"""Touches no tensor."""

print("nothing to see")
