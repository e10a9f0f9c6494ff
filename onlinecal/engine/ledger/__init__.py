"""The ledger: its file and tables, and how it is read, replayed, checked, archived and repaired."""
