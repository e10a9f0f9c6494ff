"""One key's state, what it is played with, and the keys in memory.

Nothing is imported or kept here. The judge, the engine, turns and replays open and close forecasts through
`book.py`, which says in which order.
"""
