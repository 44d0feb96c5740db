"""Flag catalogues of engine builds, as data."""
