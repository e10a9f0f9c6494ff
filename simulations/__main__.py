"""`python -m simulations` is the console command `onlinecal`."""

from onlinecal.cli.neighbours import prefer_neighbours

if __name__ == "__main__":
    prefer_neighbours()
    from simulations.cli.console import main

    main()
