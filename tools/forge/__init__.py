"""Where patches go when a person has approved them: the port of a forge, GitHub's, and one of plain files."""
