"""Time and memory as models grow."""
