"""The library's verbs, one a file, and what every verb shares: errors in one line, output in one style.

The console command itself is assembled in `onlinecal.simulations.cli.console`.
"""
