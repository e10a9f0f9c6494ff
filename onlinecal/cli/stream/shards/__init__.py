"""One stream over several processes: each has the keys of its shard, and a ledger of its own."""

MOST = 256
"""Shards of a folder."""
