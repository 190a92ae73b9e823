"""What a model makes of text: its tokenizer, and what vLLM generates with it."""
