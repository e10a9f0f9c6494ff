"""`python -m onlinecal` and the console command `onlinecal`."""

from __future__ import annotations

from onlinecal.cli.neighbours import prefer_neighbours


def main() -> None:
    """Run the console command, also in a folder with a `simulations` or `adversaries` of its own."""
    prefer_neighbours()
    from simulations.cli.console import main as run

    run()


if __name__ == "__main__":
    main()
