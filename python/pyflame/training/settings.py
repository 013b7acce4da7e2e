"""Options of a command from a TOML or JSON file, as if they stood on its command line."""

import json

from .. import _C, _files

_MOST = 1 << 20


def _bad(path, why, expected, fix="correct it"):
    return _C.FileError(f"pf.train: '{path}' {why}; expected {expected}; {fix}")


def _read(path):
    try:
        text = _files.read_regular(path, "train", _MOST).decode("utf-8")
        if path.endswith(".toml"):
            import tomllib

            values = tomllib.loads(text)
        else:
            values = json.loads(text)
    except FileNotFoundError:
        raise _bad(path, "is not there", "a TOML or JSON file", "check --config") from None
    except (OSError, ValueError, RecursionError) as e:  # of TOML and UTF-8 too
        raise _bad(path, f"cannot be read ({e})", "a TOML or JSON file of options") from None
    if type(values) is not dict:
        raise _bad(path, "is no table", 'options such as {"batch_size": 8}')
    return values


def arguments(path, known):
    """The options in the file `path` as words of a command line. `known` has their names."""
    words = []
    for key, value in _read(path).items():
        name = key.replace("-", "_")
        if name not in known:
            raise _bad(
                path,
                f"has the unknown key '{str(key)[:60]}'",
                f"some of {', '.join(sorted(known))}",
            )
        if value is True:
            words.append(f"--{name}")
        elif value is False or value is None:
            continue
        elif isinstance(value, list) and all(type(v) in (int, float, str) for v in value):
            words.append(f"--{name}={','.join(map(str, value))}")
        elif type(value) in (int, float, str):
            words.append(f"--{name}={value}")
        else:
            raise _bad(
                path, f"has {str(value)[:60]!r} for '{key}'", "a number, a text, a list or true"
            )
    return words


def expand(argv, known):
    """`argv` with the options of its --config files before all others, which so have the last word."""
    before, i = [], 0
    while i < len(argv):
        word, _, value = argv[i].partition("=")
        if word == "--config":
            if not value:
                i += 1
                if i == len(argv):
                    break
                value = argv[i]
            before += arguments(value, known)
        i += 1
    return before + list(argv)
