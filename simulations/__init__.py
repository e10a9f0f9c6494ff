"""Simulations: forecasters meet adversaries, and what comes of it is measured, kept and drawn.

`duel` plays one game in compiled code, `measuring` says how calibrated it was, `sweep` plays a whole grid
of games and keeps every finished one, `plots` draws them. The console command is assembled in `cli`.
"""
