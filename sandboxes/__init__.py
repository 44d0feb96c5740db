"""Where commands run: the ports, and the nodes that implement them."""
