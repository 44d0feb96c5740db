"""The schema's history: append-only, run by `day0.runs.database` inside one transaction."""
