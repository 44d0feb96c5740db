"""How each serving engine is launched, asked and stopped."""
