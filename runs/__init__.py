"""What is remembered: schema, ledger, queue, artifacts, recipe."""
