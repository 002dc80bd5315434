"""Finds the program `tessera` and runs it: progress through, errors as exceptions."""
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from ._error import Error

_PREFIX = "tessera: "  # of every line of an error
_KEPT = 1000  # lines of progress, of which an error is the last few


def find_program(program=None):
    """Path of the program: `program`, else $TESSERA, else on PATH, else in a source checkout.

    What is named must be there; only what is not named is searched.
    """
    for named, source in (program, "program="), (os.environ.get("TESSERA"), "$TESSERA"):
        if named:
            found = shutil.which(os.fspath(named))
            if not found:
                raise Error(f"{source} says {os.fspath(named)}, which is not a program that can "
                            "be run")
            return found
    checkout = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "tessera"
    found = shutil.which("tessera") or shutil.which(str(checkout))
    if not found:
        raise Error("the program tessera was not found: not in program=, $TESSERA or PATH, nor "
                    f"at {checkout}; build it (scripts/test) or install it")
    return found


def call(program, arguments, *, show, rename=("", "")):
    """(standard output, None), or (standard output, Error with its sentence) if it fails.

    What it writes to standard error is passed on while it runs if `show`. `rename`: a text in its
    messages, and what people should read in its place.
    """
    with tempfile.TemporaryFile() as output:
        try:
            # A group of its own: Ctrl-C comes to it from here alone, and so exactly once. A second
            # one means "at once" to it.
            process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.PIPE,
                                       start_new_session=True)
        except OSError as error:
            raise Error(f"{program}: cannot be started ({error.strerror})") from error
        lines = _follow(process, show, rename)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode == 0:
        return text, None
    return text, Error(_sentence(lines, process.returncode), process.returncode)


def _follow(process, show, rename):
    """Waits for the end; the last lines of its standard error. Ctrl-C is passed on, then raised."""
    lines = collections.deque(maxlen=_KEPT)
    interrupt = None
    try:
        while True:
            try:
                _read_lines(process, lines, show, rename)
                break
            except KeyboardInterrupt as error:
                interrupt = error
                process.send_signal(signal.SIGINT)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stderr.close()
    if interrupt is not None:
        raise interrupt
    return lines


def _read_lines(process, lines, show, rename):
    held = []  # may become an exception, and need not be read twice
    for raw in process.stderr:
        line = raw.decode("utf-8", "replace")
        line = line.replace(*rename) if rename[0] else line
        lines.append(line.rstrip("\n"))
        held.append(line)
        if not line.startswith(_PREFIX):
            _write("".join(held), show)
            held.clear()
    if process.wait() == 0:
        _write("".join(held), show)


def _write(text, show):
    if show and sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _sentence(lines, code):
    """The error that the program ended with: its last lines that say they are one."""
    last = []
    for line in reversed(lines):
        if not line.startswith(_PREFIX):
            break
        last.insert(0, line[len(_PREFIX):])
    if last:
        return "\n".join(last)
    if code < 0:
        return f"tessera was killed by signal {-code}"
    return "\n".join([f"tessera ended with exit code {code}", *list(lines)[-3:]])
