"""A machine that exists only in memory: virtual time, processes, ports and HTTP over one event queue."""
