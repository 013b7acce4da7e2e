"""The command `pyflame`. Imports are made by the subcommand that needs them."""

import argparse
import os
import sys


def _positive(kind):
    def parse(text):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    parse.__name__ = kind.__name__
    return parse


_count = _positive(int)
_amount = _positive(float)


def _natural(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """With the defaults, but not None."""

    def _get_help_string(self, action):
        return action.help if action.default is None else super()._get_help_string(action)


def _parser():
    top = argparse.ArgumentParser(
        prog="pyflame", description="PyFlame: deep learning in C++ and Python."
    )
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    train = commands.add_parser("train", help="train a model", description="Train a model.")
    models = train.add_subparsers(dest="model", metavar="MODEL", required=True)
    gpt = models.add_parser(
        "gpt",
        help="a byte-level GPT on text",
        description="Trains a byte-level GPT and prints its loss on held-out text in bits per "
        "byte. Without --data it reads the source of Python's standard library.",
        formatter_class=_Help,
    )
    add = gpt.add_argument
    add("--data", metavar="PATH", help="a text file, or a directory of them; any encoding")
    add("--out", metavar="DIR", default="runs/gpt", help="where the run is kept")
    add("--resume", action="store_true", help="go on with the newest run in --out")
    add("--minutes", type=_amount, default=5.0, help="time to take; fixes the number of steps")
    add("--steps", type=_count, help="number of steps, instead of --minutes")
    add("--layers", type=_count, help="transformer blocks (4; 6 on a GPU)")
    add("--width", type=_count, help="size of the vectors (128; 384 on a GPU)")
    add("--heads", type=_count, help="attention heads (4; 6 on a GPU)")
    add("--context", type=_count, help="bytes that the model sees (128; 256 on a GPU)")
    add("--batch", type=_count, help="windows of text in one step (16; 64 on a GPU)")
    add("--dropout", type=float, default=0.0, help="probability of dropping a value")
    add("--lr", type=_amount, help="highest learning rate (4e-3; 1e-3 on a GPU)")
    add("--weight-decay", type=float, default=0.1, help="of the weight matrices")
    add("--clip", type=_amount, default=1.0, help="largest norm of the gradients")
    add("--seed", type=_natural, default=1, help="of start values, batches and dropout")
    add("--eval-bytes", type=_count, default=262144, help="held-out bytes to look at")
    add("--sample", type=_natural, default=400, help="bytes of text to write at the end")
    add(
        "--checkpoint-interval", type=_count, metavar="STEPS",
        help="between saves (500; 2000 on a GPU)",
    )  # fmt: skip
    add("--keep", type=_count, default=2, help="checkpoints to keep")
    add("--log-interval", type=_count, default=10, metavar="STEPS", help="between logged losses")
    add("--device", metavar="NAME", default="auto", help="such as cpu or gpu:0; auto: a GPU if any")
    add(
        "--precision", choices=("auto", "float32", "bfloat16"), default="auto",
        help="of products; auto: bfloat16 on GPUs with matrix units for it",
    )  # fmt: skip
    add("--threads", type=_natural, default=0, help="CPU threads; 0 for all")

    generate = commands.add_parser(
        "generate",
        help="write text with a trained GPT",
        description="Writes text with the newest run of `pyflame train gpt`.",
        formatter_class=_Help,
    )
    add = generate.add_argument
    add("--run", metavar="DIR", default="runs/gpt", help="directory of the run")
    add("--prompt", default="def ", help="text to go on from")
    add("--bytes", type=_natural, default=500, help="bytes to write")
    add("--temperature", type=float, default=0.8, help="0 takes the likeliest byte")
    add("--top-k", type=_count, help="choose among the k likeliest bytes")
    add("--seed", type=_natural, default=1, help="of the random choices")
    add("--device", metavar="NAME", default="auto", help="such as cpu or gpu:0; auto: a GPU if any")
    add("--threads", type=_natural, default=0, help="CPU threads; 0 for all")

    cache = commands.add_parser(
        "cache",
        help="compiled GPU programs on disk",
        description="Shows, deletes or makes compiled GPU programs.",
    )
    actions = cache.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("show", help="programs, sizes, targets, compilers, last use")
    clear = actions.add_parser("clear", help="delete them")
    clear.add_argument("--target", metavar="ARCH", help="only those for it: gfx942, sm_90")
    warm = actions.add_parser("warm", help="compile the common programs now")
    warm.add_argument(
        "--arch", help="for this architecture (gfx942, sm_90) instead of the GPU here"
    )
    pack = actions.add_parser(
        "pack", help="compile the common programs for architectures into one file"
    )
    pack.add_argument(
        "--arch",
        nargs="+",
        required=True,
        help="such as gfx942 gfx1100 sm_90; native: of the GPUs here",
    )
    pack.add_argument(
        "--available",
        action="store_true",
        help="leave out those that no compiler here serves, and say why",
    )
    for action in (warm, pack):
        action.add_argument("--script", metavar="FILE", help="what this program uses instead")
    pack.add_argument("--out", default="pyflame-kernels.pack", metavar="FILE")

    tune = commands.add_parser(
        "tune",
        help="measure which matrix products are fastest here",
        description="Times kernels for the matrix products of small models, or of a program of "
        "yours, on the GPU here, and keeps the fastest choices for later runs.",
    )
    tune.add_argument("--script", metavar="FILE", help="the products of this program")
    tune.add_argument("--exhaustive", action="store_true", help="try every candidate, longer")

    commands.add_parser("info", help="version, devices and backends")
    return top


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
        from .training import gpt as job

        return job.run(args)
    if args.command == "generate":
        from .training import generate as job

        return job.run(args)
    if args.command == "cache":
        from . import kernel_cache

        return kernel_cache.command(args)
    if args.command == "tune":
        from . import tuning

        return tuning.command(args)
    if args.command == "info":
        return _info()
    parser.print_help()
    return 2


def main(argv=None):
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        return _run(args, parser)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone: `pyflame generate | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (RuntimeError, ValueError, OSError) as e:
        if os.environ.get("PYFLAME_TRACEBACK"):
            raise
        print(f"pyflame: error: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
