"""Single games: the players, the compiled loop that plays them, and the measures of a game.

Nothing here has a state.
"""
