"""Reads and writes every table: files and data frames become checked numbers, outcomes and times.

Errors name the column, the value and its row. Nothing is imported or kept here. `files` and `formats` read
files, `frames` what is in memory; `columns` and `times` check it; `rounds` and `classes` make tables of it.
"""
