"""Programs that run inside the harness' own environment: sent as files, never imported by day0."""
