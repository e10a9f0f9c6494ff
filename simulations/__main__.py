"""`python -m simulations` is the console command `onlinecal`."""

from simulations.cli.console import main

main()
