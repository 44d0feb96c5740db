"""One verb each: typed arguments in, typed facts out; no tool reads or writes the ledger."""
