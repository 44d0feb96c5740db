"""Programs of the simulated node, by the beginning of their command lines."""
