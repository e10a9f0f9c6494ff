"""The ledger: its file, what is in it, and what can be read and saved of it."""
