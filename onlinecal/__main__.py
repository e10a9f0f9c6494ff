"""`python -m onlinecal` and the console command `onlinecal`."""

from __future__ import annotations


def main() -> None:
    """Run the console command."""
    from onlinecal.simulations.cli.console import main as run

    run()


if __name__ == "__main__":
    main()
