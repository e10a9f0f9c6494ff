"""Pictures of games of several classes."""
