"""Batches of events in columns: lines read and answers written for many events at a time."""
