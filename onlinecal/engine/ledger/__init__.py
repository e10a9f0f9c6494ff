"""The ledger: its file and tables, and how it is read, replayed, checked, archived and repaired.

Nothing is imported or kept here. `schema.py` has the saved format, and `ledger.py` what always holds in a
file.
"""
