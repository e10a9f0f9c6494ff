"""`python -m simulations` is the console command `onlinecal`."""

from simulations.cli import main

main()
