"""What the command `pyflame` takes: its subcommands, their options and their ranges."""

import argparse
import math
import sys

LONGEST = 2000  # characters of an error


def one_line(text, most):
    """Text in a message: one line of printable characters, and not endless."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:most])
    return shown + "..." if len(text) > most else shown


def _number(kind, words, low, high, *, above=False):
    """A parser of numbers from `low` to `high`, or above `low`."""

    def parse(text):
        shown = one_line(text, 60)
        try:
            value = kind(text if len(text) < 100 else "")
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{shown}' is not {words}") from None
        if value != value or abs(value) == math.inf:
            raise argparse.ArgumentTypeError(f"{shown} is no finite number")
        if value < low or (above and value == low):
            raise argparse.ArgumentTypeError(
                f"{shown} is {'not above' if above else 'below'} {low}"
            )
        if value > high:
            raise argparse.ArgumentTypeError(f"{shown} is above {high}")
        return value

    return parse


def _whole(low, high):
    return _number(int, "a whole number", low, high)


def _real(low, high, **how):
    return _number(float, "a number", low, high, **how)


_count = _whole(1, 10**12)
_natural = _whole(0, 10**12)
_amount = _real(0, 10**6, above=True)
_seed = _whole(0, 2**63 - 1)
_threads = _whole(0, 4096)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage of some commands is twenty."""

    def error(self, message):
        text = one_line(message, LONGEST)
        self.exit(2, f"{self.prog}: error: {text}; see {self.prog} --help\n")

    def _print_message(self, message, file=None):  # argparse's own hides a full disk
        if message:
            (file or sys.stderr).write(message)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """With the defaults, but not None."""

    def _get_help_string(self, action):
        return action.help if action.default is None else super()._get_help_string(action)


def _batch_size(text):
    return text if text == "auto" else _whole(1, 1 << 24)(text)


def _layers(text):
    """Sizes of hidden layers: '128,64'; '' for none."""
    return [_whole(1, 1 << 17)(n.strip()) for n in text.split(",")] if text.strip() else []


def _delimiter(text):
    if len(text) != 1 or text in '\r\n"':
        raise argparse.ArgumentTypeError(f"'{one_line(text, 60)}' is not one character")
    return text


def _tabular(models):
    tabular = models.add_parser(
        "tabular",
        help="a network on a table",
        description="Trains a network on a table (CSV) and prints how well it predicts rows that were "
        "held out. Names of options may be written with - or _.",
        formatter_class=_Help,
    )

    def add(name, *rest, **how):
        spellings = dict.fromkeys((name, name.replace("_", "-")))
        tabular.add_argument(*spellings, *rest, **how)

    add("--config", metavar="FILE", help="options from a TOML or JSON file")
    add(
        "--data", metavar="PATH", default="digits", help="a CSV file; digits: those of scikit-learn"
    )
    add("--target", metavar="NAME", help="the column to predict (the last one)")
    add("--task", choices=("auto", "regression", "classification"), default="auto",
        help="auto: classes for text and few whole numbers")  # fmt: skip
    add("--delimiter", type=_delimiter, default=",", help="between the cells of a row")
    add("--held_out", type=_real(0, 0.9, above=True), default=0.2, help="share of the rows")
    add("--split", choices=("random", "order"), default="random",
        help="which rows are held out; order: the last ones, for rows in the order of time")  # fmt: skip
    add("--data_fraction", type=_real(0, 1, above=True), default=1.0, help="of the rows to use")
    add("--hidden_layers", type=_layers, default=[128, 64], help="their sizes, such as 128,64")
    add("--dropout", type=_real(0, 1), default=0.0, help="probability of dropping a value")
    add("--use_mixed_precision", action="store_true", help="products in bfloat16")
    add("--batch_size", type=_batch_size, default=32, help="rows at once; auto: measured")
    add("--min_batch_size", type=_count, default=8, help="smallest one of auto")
    add("--max_batch_size", type=_count, default=64, help="largest one of auto")
    add(
        "--gradient_accumulation_steps",
        type=_whole(1, 1 << 20),
        default=1,
        help="batches in a step",
    )
    add("--epochs", type=_count, default=20, help="passes over the table")
    add("--lr", type=_amount, default=3e-3, help="highest learning rate")
    add("--weight_decay", type=_real(0, 10**6), default=0.01, help="of all parameters")
    add("--clip", type=_real(0, 10**6), default=1.0, help="largest norm of the gradients; 0: none")
    add("--patience", type=_natural, default=0, metavar="EPOCHS",
        help="stop when the held-out loss has not improved for so many; 0: never")  # fmt: skip
    add("--seed", type=_seed, default=1, help="of start values, order and split")
    add("--num_workers", type=_whole(0, 256), default=0, help="processes that make batches")
    add("--pin_memory", action="store_true", help="batches in memory that a GPU reads directly")
    add("--cleanup_every", type=_natural, default=0, metavar="STEPS",
        help="give unused memory back so often; 0: never")  # fmt: skip
    add("--out", metavar="DIR", default="runs/tabular", help="where the run is kept")
    add("--resume_from_checkpoint", "--resume", nargs="?", const=True, metavar="PATH",
        help="go on with the newest run in --out, with this run, or from this checkpoint")  # fmt: skip
    add("--checkpoint_interval", type=_count, default=500, metavar="STEPS", help="between saves")
    add("--keep", type=_count, default=2, help="checkpoints to keep")
    add("--log_interval", type=_count, default=10, metavar="STEPS", help="between recorded losses")
    add("--tensorboard", action="store_true", help="also record for TensorBoard, in --out/events")
    add("--plot", action="store_true", help="draw --out/loss.png while it trains (matplotlib)")
    add("--device", metavar="NAME", default="auto", help="such as cpu or gpu:0; auto: a GPU if any")
    add("--threads", type=_threads, default=0, help="CPU threads; 0 for all")


_TOKENIZER = (
    "gpt2 or another encoding of tiktoken, a tokenizer.json (package tokenizers), or bytes; GPT-2's "
    "where tiktoken is there, else bytes"
)
_TOKEN_DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")


def _data(commands):
    data = commands.add_parser("data", help="files of tokens", description="Makes files of tokens.")
    actions = data.add_subparsers(dest="action", metavar="ACTION", required=True)
    tokenize = actions.add_parser(
        "tokenize",
        help="text to train.bin and val.bin",
        description="Turns a text, or all below a directory, into train.bin and val.bin: numbers alone, "
        "little-endian, as nanoGPT has them. Of one text the last twentieth is held out, of a "
        "directory every twentieth file.",
        formatter_class=_Help,
    )
    add = tokenize.add_argument
    add("text", metavar="TEXT", nargs="?", help="Python's standard library without it")
    add("--out", metavar="DIR", required=True, help="folder for the files")
    add("--tokenizer", metavar="NAME", default="auto", help=_TOKENIZER)
    add("--dtype", choices=_TOKEN_DTYPES, help="of the numbers (uint16, or uint32 where needed)")


def _of_the_machine(commands):
    verify = commands.add_parser(
        "verify",
        help="whether everything works here, step by step",
        description="Checks in this order: the GPUs, arithmetic, a small model, a small table, larger and "
        "larger models. Says what each step found; the exit status is 1 when one fails, and those "
        "behind it do not run. On a machine without a GPU it says so and checks the CPU.",
        formatter_class=_Help,
    )
    add = verify.add_argument
    add("--device", metavar="NAME", default="auto", help="such as cpu or gpu:0; auto: a GPU if any")
    add("--threads", type=_threads, default=0, help="CPU threads; 0 for all")

    monitor = commands.add_parser(
        "monitor",
        help="memory and work of the host and its GPUs",
        description="Prints used memory and how busy the host and each GPU are, again and again, until "
        "Ctrl-C or SIGTERM. No GPU is opened for it.",
        formatter_class=_Help,
    )
    add = monitor.add_argument
    add("--interval", type=_real(0.01, 10**6), default=1.0, metavar="SECONDS", help="between rows")
    add("--csv", metavar="FILE", help="also append rows to this file, each as it comes")
    add("--count", type=_natural, default=0, metavar="N", help="end after so many times; 0: never")

    env = commands.add_parser(
        "env",
        help="variables of the environment, and what each does here",
        description="Lists the variables that GPUs and training are set up with: value, effect, and what is "
        "wrong with it.",
    )
    how = env.add_mutually_exclusive_group()
    how.add_argument(
        "--export", action="store_true", help="a script for bash that sets up this machine"
    )
    how.add_argument("--json", action="store_true", help="the list as JSON")


def tabular_options():
    """Names of what `pyflame train tabular` takes, as a file of options may have them."""
    models = _Parser().add_subparsers()
    _tabular(models)
    actions = models.choices["tabular"]._actions
    return {a.dest for a in actions} - {"config", "help"}


def parser():
    top = _Parser(prog="pyflame", description="PyFlame: deep learning in C++ and Python.")
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    train = commands.add_parser("train", help="train a model", description="Train a model.")
    models = train.add_subparsers(dest="model", metavar="MODEL", required=True)
    gpt = models.add_parser(
        "gpt",
        help="a GPT on text",
        description="Trains a byte-level GPT and prints its loss on held-out text in bits per "
        "byte; with --preset a GPT-2 of tokens, and its loss in nats per token. Without --data it "
        "reads the source of Python's standard library.",
        formatter_class=_Help,
    )
    add = gpt.add_argument
    add("--preset", choices=("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"),
        help="a GPT-2 of this size; --layers and others change it")  # fmt: skip
    add("--init", metavar="DIR", help="begin with the GPT-2 in this folder (safetensors)")
    add(
        "--data", metavar="PATH",
        help="a text file, or a directory of them; any encoding. With --preset also a directory "
        "with train.bin and val.bin, or one file of tokens (.bin, .npy)",
    )  # fmt: skip
    add("--tokenizer", metavar="NAME", help=_TOKENIZER)
    add("--dtype", choices=_TOKEN_DTYPES, help="of the numbers in a file of tokens (uint16)")
    add("--out", metavar="DIR", default="runs/gpt", help="where the run is kept")
    add("--resume", action="store_true", help="go on with the newest run in --out")
    add("--minutes", type=_amount, default=5.0, help="time to take; fixes the number of steps")
    add("--steps", type=_count, help="number of steps, instead of --minutes")
    add("--layers", type=_whole(1, 10_000), help="transformer blocks (4; 6 on a GPU)")
    add("--width", type=_whole(1, 1 << 17), help="size of the vectors (128; 384 on a GPU)")
    add("--heads", type=_whole(1, 1 << 17), help="attention heads (4; 6 on a GPU)")
    add("--context", type=_whole(1, 1 << 24), help="bytes that the model sees (128; 256 on a GPU)")
    add("--batch", type=_whole(1, 1 << 20), help="windows of text at once (16; 64 on a GPU; of presets "
        "2; 32, 16, 8, 4 on a GPU)")  # fmt: skip
    add("--accumulate", type=_whole(1, 1 << 20), default=1, help="batches in one step")
    add("--dropout", type=_real(0, 1), default=0.0, help="probability of dropping a value")
    add("--lr", type=_amount, help="highest learning rate (4e-3; 1e-3 on a GPU; of presets "
        "6e-4 to 2e-4)")  # fmt: skip
    add("--weight-decay", type=_real(0, 10**6), default=0.1, help="of the weight matrices")
    add("--clip", type=_amount, default=1.0, help="largest norm of the gradients")
    add("--seed", type=_seed, default=1, help="of start values, batches and dropout")
    add("--eval-bytes", "--eval-tokens", type=_count, default=262144, help="held-out bytes, or tokens, to "
        "look at")  # fmt: skip
    add("--eval-interval", type=_natural, default=0, metavar="STEPS",
        help="look at held-out text so often, too; 0: at the end")  # fmt: skip
    add("--sample", type=_natural, default=400, help="bytes, or tokens, to write at the end")
    add("--compile", action="store_true", help="capture the step and launch it without Python")
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
    add("--weights", choices=("float32", "bfloat16"), default="float32",
        help="bfloat16: weights and gradients in it, beside the optimizer's float32 masters")  # fmt: skip
    add("--threads", type=_threads, default=0, help="CPU threads; 0 for all")

    _tabular(models)
    _data(commands)

    generate = commands.add_parser(
        "generate",
        help="write text with a trained GPT",
        description="Writes text with the newest run of `pyflame train gpt`, or with a GPT-2 or Llama in "
        "a folder of Hugging Face's layout.",
        formatter_class=_Help,
    )
    add = generate.add_argument
    add("--run", metavar="DIR", default="runs/gpt", help="directory of the run")
    add("--model", metavar="DIR", help="a folder with config.json and safetensors, instead")
    add("--tokenizer", metavar="NAME", help=_TOKENIZER)
    add("--prompt", default="def ", help="text to go on from")
    add("--bytes", "--tokens", type=_natural, default=500, help="bytes, or tokens, to write")
    add("--temperature", type=_real(0, 10**6), default=0.8, help="0 takes the likeliest")
    add("--top-k", type=_count, help="choose among the k likeliest")
    add("--top-p", type=_real(0, 1, above=True),
        help="choose among the fewest that together have this probability")  # fmt: skip
    add("--precision", choices=("auto", "float32", "bfloat16"), default="auto",
        help="of a GPT-2's or Llama's weights; auto: bfloat16 on GPUs with matrix units for it")  # fmt: skip
    add("--compile", action="store_true", help="capture the step and launch it without Python")
    add("--seed", type=_seed, default=1, help="of the random choices")
    add("--device", metavar="NAME", default="auto", help="such as cpu or gpu:0; auto: a GPU if any")
    add("--threads", type=_threads, default=0, help="CPU threads; 0 for all")

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

    # `pyflame run` has no options of ours behind its name: cli.main hands it over.
    commands.add_parser("run", help="run a program written for PyTorch", add_help=False)

    check = commands.add_parser(
        "check",
        help="what a program written for PyTorch uses, and what of it is missing",
        description="Lists, without running it, the names of torch that a program or the programs "
        "of a folder use and PyFlame does not have. The exit status is 1 when there are any.",
    )
    check.add_argument(
        "paths", metavar="PATH", nargs="+", help="files, and folders with Python files"
    )
    check.add_argument("--json", action="store_true", help="everything that was found, as JSON")

    convert = commands.add_parser(
        "convert",
        help="files of torch.save to safetensors, and back",
        description="Reads a file of torch.save (no code in it is run) or a safetensors file, and "
        "writes the other format: that which the name of the target says.",
    )
    convert.add_argument("source", metavar="SOURCE", help="model.pt, model.safetensors")
    convert.add_argument("target", metavar="TARGET", help="ends in .safetensors, .pt, .pth or .bin")
    convert.add_argument(
        "--key", action="append", metavar="NAME",
        help="only this entry of the file, such as model; given twice, an entry of that",
    )  # fmt: skip

    commands.add_parser("info", help="version, devices and backends")
    _of_the_machine(commands)
    return top
