"""One key's state, what it is played with, and the keys in memory."""
