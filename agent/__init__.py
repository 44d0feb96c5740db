"""Who decides: CLI, graph, ladder, policies, LLM."""
