"""The verb `stream`: the engine on standard input and output, and what belongs to its ledger.

Nothing is imported or kept here. `verb.py` has the options, and hands them to `loop.py` or `kafka.py`.
"""
