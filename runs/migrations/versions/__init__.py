"""One module per revision. A released one never changes; nothing here imports the present tables."""
