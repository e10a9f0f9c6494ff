"""What the engine's operator sees: scores, alarms and reliability, kept up to date as events come.

Nothing is imported or kept here. No forecast depends on anything in this folder, but accounts, watches and
reliability are saved.
"""
