"""The forecasters' names for help texts, which must not wait for the forecasters themselves to be imported.

A test holds them against `simulations.games.players.catalogue()`.
"""

FORECASTERS = (
    "sign", "balanced", "nested", "adaptive", "constant", "running-mean", "drift-corrected", "foster",
    "foster-hart", "foster-vohra", "linear-optimisation", "minimax", "two-choices", "one-step-ahead",
)  # fmt: skip
