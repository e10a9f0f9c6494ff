"""Every table in and out: files and data frames as numbers, outcomes and times, checked and named by row."""
