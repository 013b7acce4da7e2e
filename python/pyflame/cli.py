"""The command `pyflame`. Imports are made by the subcommand that needs them."""

import importlib
import os
import sys

from . import _arguments
from .training import output

# Whose command() does the work of a subcommand.
_MODULES = {
    "cache": ".kernel_cache",
    "check": "._torch.check",
    "convert": ".torch_files.convert",
    "data": ".training.token_files",
    "env": ".commands.environment",
    "monitor": ".commands.monitor",
    "tune": ".tuning",
    "verify": ".commands.verify",
}


def _info():
    import platform

    import pyflame as pf

    print(f"pyflame {pf.__version__}")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(f"CPU threads: {pf.get_num_threads()}")
    for name, state in sorted(pf._C.backend_status().items()):
        print(f"backend {name}: {state}")
        for i in range(pf._C._device_count(name) if name != "cpu" and state == "loaded" else 0):
            about = pf._C.device_info(pf.device(name, i))
            memory = int(about["total_memory"]) / 2**30
            usable = "" if about["usable"] == "yes" else f"; not usable: {about['usable']}"
            print(
                f"device {name}:{i}: {about['name']}, {about['architecture']}, "
                f"{memory:.1f} GiB{usable}"
            )
            print(f"  runtime: {about['runtime']}; run-time compiler: {about['compiler']}")
    return 0


def _run(args, parser):
    if args.version:
        import pyflame as pf

        print(f"pyflame {pf.__version__}")
        return 0
    if args.command == "train":
        if args.model == "tabular":
            from .training import tabular as job
        else:
            from .training import gpt as job

        return job.run(args)
    if args.command == "generate":
        from .training import generate as job

        return job.run(args)
    if args.command == "info":
        return _info()
    if args.command in _MODULES:
        return importlib.import_module(_MODULES[args.command], __package__).command(args)
    parser.print_help()
    return 2


def _failed(e):
    """Says why a command failed; returns the exit status."""
    if os.environ.get("PYFLAME_TRACEBACK"):
        raise e
    # A program of the user's has failed with lines of its own.
    text = (
        str(e)
        if getattr(e, "several_lines", False)
        else _arguments.one_line(str(e), _arguments.LONGEST)
    )
    if isinstance(e, (RuntimeError, ValueError, TypeError, OSError, MemoryError)):
        text = text or type(e).__name__
    else:
        text = f"unexpected {type(e).__name__}: {text}; PYFLAME_TRACEBACK=1 shows where"
    output.write("stderr", f"pyflame: error: {text}\n")
    return 1


def main(argv=None):
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["run"]:  # the program's own: what it raises, its streams and its exit status
        from . import run

        return run.main(words[1:])
    output.begin()
    parser = _arguments.parser()
    try:
        argv = sys.argv[1:] if argv is None else list(argv)
        if argv[:2] == ["train", "tabular"] and any(a.split("=")[0] == "--config" for a in argv):
            from .training import settings

            argv[2:] = settings.expand(argv[2:], _arguments.tabular_options())
        args = parser.parse_args(argv)
        for name, value in vars(args).items():
            if value == [] and name != "hidden_layers":  # what argparse makes of --name=--
                parser.error(f"argument --{name.replace('_', '-')}: expected a value")
        status = _run(args, parser)
    except SystemExit as e:  # of argparse: --help, or an error that it has said
        status = e.code or 0
    except KeyboardInterrupt:
        output.write("stderr", "\ninterrupted\n")
        status = 130
    except BrokenPipeError:  # the reader of our output has gone: `pyflame generate | head`
        status = 141
    except Exception as e:
        status = _failed(e)
    return output.end(status)


if __name__ == "__main__":
    sys.exit(main())
