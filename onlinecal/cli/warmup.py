"""The verb `warmup`: compiles everything now, so that nobody waits for it later.

The only state is the folder of compiled code, which the steps fill. The steps' order is free: each compiles
what is not there yet. Keys of the JSON are what users read; the names of steps are only shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onlinecal.cli.output import answer, notices, watched
from onlinecal.cli.verbs import AsJson

Step = tuple[str, Callable[[], object]]
"""The name of a part, and the function that has it compiled."""


def warmup_with(more: Callable[[], Iterable[Step]] = tuple) -> Callable[[bool], None]:
    """The verb, which compiles the library's entries and then those that the command adds with `more`."""

    def warmup(
        as_json: AsJson = False,
    ) -> None:
        """Compile everything that the library and this command use, once, e.g. while an image is built.

        Compiled code is kept in $NUMBA_CACHE_DIR, else in $XDG_CACHE_HOME or ~/.cache, in the folder
        onlinecal. What is there already is not compiled again: after an interrupt the same command goes on
        from there. What root has compiled, other users can load.

        Example:

        [bold]NUMBA_CACHE_DIR=/opt/kernels onlinecal warmup[/bold]
        """
        import io
        from contextlib import redirect_stderr

        from onlinecal.cli.everything import LIBRARY
        from onlinecal.compiling import Compiled, compiled_at_once, counting, kept_in

        steps = [*LIBRARY.items(), *more()]
        everything = Compiled()
        with watched("compiling", len(steps), "compiled: {} of {}") as tell:
            for done, (name, step) in enumerate(steps, 1):
                tell.name(f"compiling ({name})")
                # notes about waiting, which steps write to stderr, are for people who did not ask for this
                with compiled_at_once(), counting() as compiled, redirect_stderr(io.StringIO()):
                    step()
                everything.add(compiled)
                tell(done, len(steps))
        kept = kept_in()
        if kept is None:
            notices().print("there is no folder to keep compiled code in: every process compiles anew")
        folder = None if kept is None else str(kept)
        record = {"compiled": everything.loops, "seconds": everything.seconds, "folder": folder}
        line = f"everything was there already, in {kept}"
        if everything.loops:
            line = f"compiled {everything.loops} loops in {everything.seconds:.0f} s, kept in {kept}"
        answer(as_json, record, [line])

    return warmup
