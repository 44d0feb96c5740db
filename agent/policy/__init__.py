"""What proposes the next experiments. Pure: frozen values in, frozen values out."""
