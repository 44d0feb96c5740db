"""The twin: a simulated node of accelerators that serves a simulated model, behind the same ports as a real one."""
