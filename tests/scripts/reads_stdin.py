"""Asks its user a question."""

name = input("Which model? ")
