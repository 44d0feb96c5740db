"""Shipped worlds."""
