"""`python -m day0.agent`: the same as `day0`."""

from day0.agent.cli import main

main()
