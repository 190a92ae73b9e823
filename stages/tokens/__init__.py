"""What a model makes of text: its tokenizer."""
