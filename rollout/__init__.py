"""What happens after the hand-over: so far, a schedule replayed on recorded true lengths."""
