"""Python programs that a program starts by itself (`subprocess`, as `accelerate launch` does): they are
started with `pyflame run`, too."""

import os
import shutil
import subprocess
import sys

_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}


def _is_this_python(program, env):
    found = shutil.which(program, path=(env or os.environ).get("PATH"))
    if not found:
        return False
    found = os.path.abspath(found)
    beside = os.path.dirname(found) == os.path.dirname(os.path.abspath(sys.executable))
    return found == os.path.abspath(sys.executable) or (
        beside and os.path.basename(found).startswith("python")
    )


def command(args, env=None):
    """A command in a list, with `-m pyflame run` before the program where it starts one by this Python.
    One that isolates it (-I, -E, -S) stays, and so does what is no such command."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return args
    words = list(args)
    try:
        texts = [os.fsdecode(w) for w in words]
    except TypeError:
        return args
    if len(texts) < 2 or not _is_this_python(texts[0], env):
        return args
    at = 1
    while at < len(texts) and texts[at].startswith("-") and texts[at] != "-":
        word = texts[at]
        if word in _WITH_VALUE:
            at += 2
            continue
        if word.startswith("--"):
            return args  # --version, --help
        letters = word[1:]
        if letters[0] in "WX":  # with its value in one word
            at += 1
            continue
        last = min((letters.index(c) for c in "mc" if c in letters), default=None)
        if set(letters[:last]) & set("IESVhi"):
            return args
        if last is not None:
            if last:  # "-um module"
                words[at : at + 1] = ["-" + letters[:last], "-" + letters[last:]]
                at += 1
            return _run(words, at)
        at += 1
    return _run(words, at) if at < len(words) else args


def _run(words, at):
    module = words[at + 1] if os.fsdecode(words[at]) == "-m" and len(words) > at + 1 else ""
    if os.fsdecode(module).partition(".")[0] in ("pyflame", "pip"):
        return words
    return [*words[:at], "-m", "pyflame", "run", *words[at:]]


def install():
    """From here on subprocess.Popen starts Python programs so."""
    start = subprocess.Popen.__init__

    def __init__(self, args, *others, **how):
        if not how.get("shell") and not how.get("executable") and len(others) < 2:
            args = command(args, how.get("env"))
        start(self, args, *others, **how)

    subprocess.Popen.__init__ = __init__
