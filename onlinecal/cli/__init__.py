"""The library's verbs, each in a file of its own, and what they share: one-line errors, one style of output.

Nothing is imported or kept here. The console command itself is assembled in
`onlinecal.simulations.cli.console`.
"""
