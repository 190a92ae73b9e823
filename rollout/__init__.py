"""What happens after the hand-over: runs controlled, simulated, and replayed on true lengths."""
