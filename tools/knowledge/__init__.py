"""Known issues as YAML documents; `day0.tools.known` reads them."""
