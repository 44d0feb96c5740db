"""Policies played against worlds: an arena without graph and ledger, scores against the oracle, tables."""
