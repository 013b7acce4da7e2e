"""`pyflame train gpt`: trains a GPT, of bytes or of tokens, and says how well it predicts held-out
text."""

import os
import time

from .. import _C, _ops, manual_seed
from ..checkpoint import Checkpoints
from ..models.gpt import GPTConfig
from ..models.gpt2 import GPT2 as _GPT2
from ..models.gpt2 import SIZES, GPT2Config
from ..models.pretrained import read_config as read_pretrained
from . import text as texts
from . import token_files
from .config import check_memory, read_config
from .devices import describe_device, multiplies_bfloat16, on_gpu, use
from .language import Trainer, kind_of, narrow_weights
from .loop import Interrupts, interrupted, keep_result, run_steps
from .output import say
from .peak import peak, step_operations
from .progress import Progress
from .records import JsonLines
from .runs import CONFIG, claimed, new_run, newest_directory, note_left_out, write_json
from .tokenizers import tokenizer

_LOG, _TOKENS = "log.jsonl", "tokens"

# Sizes and learning rate where the command line names none.
_SIZES = {
    "cpu": dict(layers=4, width=128, heads=4, context=128, batch=16, lr=4e-3),
    "gpu": dict(layers=6, width=384, heads=6, context=256, batch=64, lr=1e-3),
}
# Of presets: batches that a GPU of 80 GB holds, and rates as GPT-3's of these sizes had them.
_PRESETS = {
    "gpt2": dict(batch=32, lr=6e-4), "gpt2-medium": dict(batch=16, lr=3e-4),
    "gpt2-large": dict(batch=8, lr=2.5e-4), "gpt2-xl": dict(batch=4, lr=2e-4),
}  # fmt: skip


def printable(text):
    """Text for a terminal: no control characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text)


def sample(trainer, count):
    """Text that the model writes."""
    config, model = trainer.config, trainer.model
    if kind_of(config) == "bytes":
        manual_seed(config["seed"])
        out = model.generate(_ops.tensor([list(b"def ")]), count, temperature=0.8)
        return bytes(out[0].tolist()).decode("utf-8", errors="replace")
    how, _ = tokenizer(config["tokenizer"])
    first = [0 if how.end is None else how.end]
    count = min(count, model.config.context - 1)
    with trainer.autocast:
        (out,) = model.generate(
            [first], count, 0.8, seed=config["seed"], eos=how.end, vocab=how.vocab
        )
    return how.decode(out[1:])


# ---- choosing the number of steps ---------------------------------------------------------------


def calibrate(config, text, seconds=4.0):
    """Seconds for one training step, from a model that is thrown away."""
    probe = Trainer(dict(config, steps=1000), text)
    for _ in range(3):
        loss = probe.train_step()
    loss.item()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        probe.train_step().item()
        times.append(time.perf_counter() - began)
    # The machine is seldom as quiet as at its best: the mean, not the minimum.
    return sum(times) / len(times)


def steps_for(minutes, step_seconds, config):
    tokens = config["batch"] * config["model"]["context"] * config.get("accumulation", 1)
    evaluation = config["eval_bytes"] / tokens * step_seconds * 0.4 + 3.0
    left = minutes * 60 * 0.93 - 6.0 - evaluation
    return max(20, int(left / step_seconds) // 10 * 10)


# ---- the command --------------------------------------------------------------------------------


def _fresh(args, text, model, **more):
    config = {
        "format": 1,
        "model": model,
        "precision": args.precision,
        "weights": args.weights,
        "batch": args.batch,
        "accumulation": args.accumulate,
        "lr": args.lr,
        "weight_decay": args.weight_decay,
        "clip": args.clip,
        "seed": args.seed,
        "eval_bytes": args.eval_bytes,
        "eval_interval": args.eval_interval,
        "data": args.data and os.path.abspath(args.data),
        "fingerprint": text.fingerprint,
        "log_interval": args.log_interval,
        "compile": args.compile,
        "warmup": 1,
        **more,
    }
    check_memory(config)
    if args.steps is None:
        seconds = calibrate(config, text)
        config["steps"] = steps_for(args.minutes, seconds, config)
        say(
            f"calibration: {seconds * 1e3:.1f} ms a step, so {config['steps']} steps in about "
            f"{args.minutes:g} minutes"
        )
    else:
        config["steps"] = args.steps
    config["warmup"] = max(1, min(200, config["steps"] // 20))
    return config


def _sizes(args):
    return {
        key: getattr(args, key) for key in ("layers", "width", "heads", "context")
        if getattr(args, key) is not None
    }  # fmt: skip


def _default(args, values):
    for key, value in values.items():
        if getattr(args, key) is None:
            setattr(args, key, value)


def _fresh_bytes(args):
    for name in ("tokenizer", "dtype"):
        if getattr(args, name) is not None:
            raise _C.ValueError(
                f"pf.train: got --{name} without --preset; expected it with one: without, the model "
                "reads bytes; name a preset"
            )
    _default(args, _SIZES["gpu" if on_gpu() else "cpu"])
    text = _load_text(args.data)
    text.check(args.context)
    model = vars(GPTConfig(**_sizes(args), dropout=args.dropout))
    return _fresh(args, text, model), text


def _fresh_tokens(args, directory):
    """Configuration and tokens of a GPT-2."""
    _default(args, _PRESETS[args.preset or "gpt2"] | ({} if on_gpu() else {"batch": 2}))
    if args.init is not None:
        start = vars(read_pretrained(_GPT2, args.init))
        for name, value in _sizes(args).items():
            if value != start[name]:
                raise _C.ValueError(
                    f"pf.train: got --{name} {value} with --init; expected the {start[name]} of "
                    f"'{args.init}'; leave --{name} out"
                )
        context = start["context"]
    else:
        context = args.context or GPT2Config().context
    data, made = args.data, None
    if data is None or not token_files.is_token_data(data):
        how, note = tokenizer(args.tokenizer or "auto")
        if note:
            say(f"note: {note}")
        made = data = os.path.join(directory, _TOKENS)
        notes = []
        about = token_files.make(args.data, data, how, args.dtype, notes)
        for line in notes:
            say(f"note: {line}")
        say(f"tokens: {about['train_tokens'] + about['held_out_tokens']:,} of "
            f"{about['bytes']:,} bytes, by {how.name}")  # fmt: skip
    tokens = token_files.TokenData(data, context, args.dtype)
    if args.init is not None:
        model = start | {"dropout": args.dropout}
        if model["vocab"] < tokens.vocab:
            raise _C.ValueError(
                f"pf.train: the model of '{args.init}' knows {model['vocab']} tokens and the data "
                f"has {tokens.vocab}; expected one vocabulary; tokenise the text with the model's own"
            )
    else:
        # Products like multiples of 64.
        vocab = -(-tokens.vocab // 64) * 64
        sizes = SIZES[args.preset] | _sizes(args) | {"context": context, "vocab": vocab}
        model = vars(GPT2Config(**sizes, dropout=args.dropout))
    more = {
        "kind": "gpt2",
        "preset": args.preset,
        "init": args.init and os.path.abspath(args.init),
        "tokens": os.path.abspath(data),
        "dtype": tokens.dtype,
        "tokenizer": args.tokenizer if made is None and args.tokenizer else tokens.tokenizer,
    }
    tokens.limit(model["vocab"])
    return _fresh(args, tokens, model, **more), tokens


def _load_text(path):
    text = texts.load(path)
    for note in text.notes:
        say(f"note: {note}")
    return text


def run(args):
    """The whole command; returns the exit status."""
    use(args)
    if args.checkpoint_interval is None:
        args.checkpoint_interval = 2000 if on_gpu() else 500
    if args.resume:
        with claimed(newest_directory(args.out)) as directory:
            found = _found(directory)
            note_left_out(args, found[0])
            return _run(args, directory, *found)
    if args.precision == "auto":
        fits = multiplies_bfloat16() or args.weights == "bfloat16"
        args.precision = "bfloat16" if fits else "float32"
    if args.weights == "bfloat16" != args.precision:
        raise _C.ValueError(
            "pf.train: got --weights bfloat16 with --precision float32; expected products in bfloat16, "
            "as of weights in it there are no others; leave --precision out"
        )
    if args.preset is None and args.init is None:
        config, text = _fresh_bytes(args)
        with new_run(args.out) as directory:
            write_json(os.path.join(directory, CONFIG), config)
            return _run(args, directory, config, text, None)
    with new_run(args.out) as directory:
        config, text = _fresh_tokens(args, directory)
        write_json(os.path.join(directory, CONFIG), config)
        return _run(args, directory, config, text, None)


def _found(directory):
    """Configuration, text and newest state of a run that goes on."""
    config = read_config(directory)
    context = config["model"]["context"]
    if kind_of(config) == "bytes":
        text = _load_text(config["data"])
    else:
        text = token_files.TokenData(config["tokens"], context, config["dtype"])
        text.limit(config["model"]["vocab"])
    if text.fingerprint != config["fingerprint"]:
        raise _C.ValueError(
            f"pf.train: the text '{text.name}' is not the one that the run in '{directory}' "
            "began with; expected the same bytes, or the run would not be the same; restore "
            "it or start a new run"
        )
    if kind_of(config) == "bytes":
        text.check(context)
    found = Checkpoints(directory).load()
    return config, text, found.state if found else None


def _load_state(trainer, state, directory):
    config = state.get("config") if isinstance(state, dict) else None
    if config != trainer.config:
        raise _C.ValueError(
            f"pf.train: the newest checkpoint in '{directory}' belongs to another "
            f"configuration than its {CONFIG}; expected one run; start a new one"
        )
    trainer.load(state)


def _describe(args, trainer, directory, text):
    config, sizes = trainer.config, trainer.config["model"]
    unit = "bytes" if trainer.bits else "tokens"
    count = sum(p.numel() for p in trainer.parameters)
    say(
        f"model: {sizes['layers']} layers, width {sizes['width']}, context {sizes['context']} "
        f"{unit}, {count:,} parameters"
    )
    precision = config.get("precision", "float32")
    masters = ", weights in bfloat16 beside float32 masters" if narrow_weights(config) else ""
    say(f"device: {describe_device()}, products in {precision}{masters}")
    say(
        f"text: {text.name}, {len(text.train):,} {unit} to learn from, "
        f"{len(text.held_out):,} held out"
    )
    batches = f"{trainer.accumulation} x {config['batch']}" if trainer.accumulation > 1 else str(
        config["batch"]
    )  # fmt: skip
    where = f"run: {directory}, {config['steps']} steps of {batches} windows"
    say(where + (f", going on at step {trainer.step}" if args.resume else ""))
    tokens = trainer.tokens_a_step()
    operations = step_operations(trainer.model, tokens, sizes["context"])
    most, source = peak(precision)
    say(f"step: {operations / 1e12:.3g} TFLOP; peak: {most / 1e12:.4g} TFLOP/s, by {source}")
    return operations / most


def _run(args, directory, config, text, state):
    checkpoints = Checkpoints(directory, keep=args.keep)
    trainer = Trainer(config, text)
    if state is not None:
        _load_state(trainer, state, directory)
    log = JsonLines(os.path.join(directory, _LOG))
    log.cut(trainer.step)
    share = _describe(args, trainer, directory, text)
    with Interrupts() as interrupts:
        progress = Progress(
            "train gpt", trainer.total, trainer.step, trainer.tokens_a_step(), share=share,
            unit=" bits/byte" if trainer.bits else "",
        )  # fmt: skip
        stopped, problem = run_steps(
            trainer, checkpoints, interrupts, progress, log, every=args.checkpoint_interval,
            log_every=config["log_interval"], saved=trainer.step if args.resume else None,
        )  # fmt: skip
    again = f"pyflame train gpt --resume --out {directory}"
    if stopped is not None:
        return interrupted(trainer, stopped, problem, again)
    if args.sample:
        try:
            say("\nsample:\n" + printable(sample(trainer, args.sample)))
        except (_C.NotSupportedError, _C.FileError) as e:  # the tokenizer is elsewhere
            say(f"\nnote: no sample: {e}")
    held_out = trainer.held_out()
    name = "held_out_bits_per_byte" if trainer.bits else "held_out_loss"
    problem = keep_result(directory, {name: held_out, "steps": config["steps"]}, problem, again)
    say(f"\nheld-out: {held_out:.3f} {'bits per byte' if trainer.bits else 'nats per token'}")
    return 0 if problem is None else 1
