"""Batches of events in columns, so that many events are handled at a time."""
