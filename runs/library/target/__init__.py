"""Targets, `day0/target/v1`."""
