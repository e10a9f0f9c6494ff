"""`python -m onlinecal` and the console command `onlinecal`.

`main` is what the installed command `onlinecal` calls (`[project.scripts]` of pyproject.toml), so its name
and place stay. It imports the verbs inside, so that importing this module costs nothing.
"""

from __future__ import annotations


def main() -> None:
    """Run the console command."""
    from onlinecal.simulations.cli.console import main as run

    run()


if __name__ == "__main__":
    main()
