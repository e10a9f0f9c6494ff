"""Who belongs to which group, and the books that are kept for each."""
