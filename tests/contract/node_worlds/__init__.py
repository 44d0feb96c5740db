"""The worlds over which the node's contract runs: the same programs on a real and on a simulated machine."""
