"""Single games: who plays, the compiled loop, what the game was worth."""
