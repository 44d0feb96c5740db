"""Documents that ship with day0."""
