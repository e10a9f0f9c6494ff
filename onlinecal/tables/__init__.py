"""Reads and writes every table: files and data frames become checked numbers, outcomes and times.

Errors name the column, the value and its row.
"""
