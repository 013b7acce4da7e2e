"""`pyflame train gpt`: trains a byte-level GPT and says how well it predicts held-out text."""

import math
import os
import time
from contextlib import nullcontext

from .. import _C, _ops, manual_seed
from ..amp import autocast
from ..autograd import no_grad
from ..checkpoint import Checkpoints
from ..models.gpt import GPT, GPTConfig
from ..nn import functional as F
from ..nn.utils import clip_grad_norm_
from ..optim import AdamW
from . import text as texts
from .config import check_memory, read_config
from .devices import describe_device, multiplies_bfloat16, on_gpu, use
from .loop import Interrupts, Job, interrupted, keep_result, run_steps
from .output import say
from .progress import Progress
from .records import JsonLines
from .runs import CONFIG, claimed, new_run, newest_directory, write_json

_LOG = "log.jsonl"


# ---- the pieces of a run ------------------------------------------------------------------------


# Sizes and learning rate where the command line names none.
_SIZES = {
    "cpu": dict(layers=4, width=128, heads=4, context=128, batch=16, lr=4e-3),
    "gpu": dict(layers=6, width=384, heads=6, context=256, batch=64, lr=1e-3),
}


def make_model(config):
    manual_seed(config["seed"])
    return GPT(GPTConfig(**config["model"]))


def make_optimizer(model, config):
    groups = model.parameter_groups(config["weight_decay"])
    return AdamW(groups, lr=config["lr"], betas=(0.9, 0.95), eps=1e-8)


class Trainer(Job):
    """Model, optimizer and batches."""

    def __init__(self, config, text):
        self.config = config
        self.model = make_model(config)
        self.optimizer = make_optimizer(self.model, config)
        self.parameters = list(self.model.parameters())
        self.batches = texts.Batches(
            text.train, config["batch"], config["model"]["context"], config["seed"]
        )
        self.total = config["steps"]
        self.autocast = nullcontext()
        if config.get("precision") == "bfloat16":
            self.autocast = autocast("cuda" if on_gpu() else "cpu", _C.bfloat16)

    def rate(self):
        c = self.config
        return _ops._warmup_cosine(self.step, c["warmup"], c["steps"], c["lr"], c["lr"] * 0.02)

    def train_step(self):
        config = self.config
        if config["model"]["dropout"]:
            manual_seed((config["seed"] * 1_000_003 + self.step + 1) & (2**63 - 1))
        inputs, targets = self.batches(self.step)
        self.optimizer.zero_grad()
        with self.autocast:
            loss = self.model(inputs, targets)
        loss.backward()
        clip_grad_norm_(self.parameters, config["clip"])
        lr = self.rate()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def shown(self, loss):
        return loss / math.log(2)

    def entry(self, shown):
        return {"bits_per_byte": shown}

    def state(self):
        return {
            "config": self.config,
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]


def bits_per_byte(model, data, limit, batch=16):
    """Mean cross-entropy in bits over evenly spread windows, each predicted from its own start."""
    context = model.config.context
    starts = texts.windows(data, context, limit)
    offsets = _ops.arange(context + 1).unsqueeze(0)
    was_training = model.training
    model.eval()
    nats = 0.0
    with no_grad():
        for i in range(0, len(starts), batch):
            index = _ops.tensor(starts[i : i + batch]).unsqueeze(1) + offsets
            window = _ops.index_select(data, 0, index.view(-1)).view(index.shape).long()
            logits = model(window[:, :-1])
            nats += F.cross_entropy(
                logits.view(-1, logits.shape[-1]), window[:, 1:].reshape(-1), reduction="sum"
            ).item()
    model.train(was_training)
    return nats / (len(starts) * context * math.log(2))


def printable(text):
    """Text for a terminal: no control characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text)


def sample(model, prompt, count, seed, temperature=0.8):
    manual_seed(seed)
    tokens = _ops.tensor([list(prompt)])
    out = model.generate(tokens, count, temperature=temperature)
    return bytes(out[0].tolist())


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
    tokens = config["batch"] * config["model"]["context"]
    evaluation = config["eval_bytes"] / tokens * step_seconds * 0.4 + 3.0
    left = minutes * 60 * 0.93 - 6.0 - evaluation
    return max(20, int(left / step_seconds) // 10 * 10)


# ---- the command --------------------------------------------------------------------------------


def _fresh(args, text):
    config = {
        "format": 1,
        "model": vars(
            GPTConfig(
                layers=args.layers, width=args.width, heads=args.heads, context=args.context,
                dropout=args.dropout,
            )
        ),
        "precision": args.precision,
        "batch": args.batch,
        "lr": args.lr,
        "weight_decay": args.weight_decay,
        "clip": args.clip,
        "seed": args.seed,
        "eval_bytes": args.eval_bytes,
        "data": args.data and os.path.abspath(args.data),
        "fingerprint": text.fingerprint,
        "log_interval": args.log_interval,
        "warmup": 1,
    }  # fmt: skip
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
            return _run(args, directory, *_found(directory))
    for key, value in _SIZES["gpu" if on_gpu() else "cpu"].items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    if args.precision == "auto":
        args.precision = "bfloat16" if multiplies_bfloat16() else "float32"
    text = _load_text(args.data)
    text.check(args.context)
    config = _fresh(args, text)
    with new_run(args.out) as directory:
        write_json(os.path.join(directory, CONFIG), config)
        return _run(args, directory, config, text, None)


def _found(directory):
    """Configuration, text and newest state of a run that goes on."""
    config = read_config(directory)
    text = _load_text(config["data"])
    if text.fingerprint != config["fingerprint"]:
        raise _C.ValueError(
            f"pf.train: the text '{text.name}' is not the one that the run in '{directory}' "
            "began with; expected the same bytes, or the run would not be the same; restore "
            "it or start a new run"
        )
    text.check(config["model"]["context"])
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


def _run(args, directory, config, text, state):
    checkpoints = Checkpoints(directory, keep=args.keep)
    trainer = Trainer(config, text)
    if state is not None:
        _load_state(trainer, state, directory)
    log = JsonLines(os.path.join(directory, _LOG))
    log.cut(trainer.step)
    sizes = config["model"]
    count = sum(p.numel() for p in trainer.parameters)
    say(
        f"model: {sizes['layers']} layers, width {sizes['width']}, context {sizes['context']} "
        f"bytes, {count:,} parameters"
    )
    say(f"device: {describe_device()}, products in {config.get('precision', 'float32')}")
    say(
        f"text: {text.name}, {text.train_bytes:,} bytes to learn from, "
        f"{text.held_out_bytes:,} held out"
    )
    where = f"run: {directory}, {config['steps']} steps of {config['batch']} windows"
    say(where + (f", going on at step {trainer.step}" if args.resume else ""))

    with Interrupts() as interrupts:
        progress = Progress(
            "train gpt", trainer.total, trainer.step, config["batch"] * sizes["context"]
        )
        stopped, problem = run_steps(
            trainer, checkpoints, interrupts, progress, log, every=args.checkpoint_interval,
            log_every=config["log_interval"], saved=trainer.step if args.resume else None,
        )  # fmt: skip
    again = f"pyflame train gpt --resume --out {directory}"
    if stopped is not None:
        return interrupted(trainer, stopped, problem, again)
    if args.sample:
        data = sample(trainer.model, b"def ", args.sample, config["seed"])
        say("\nsample:\n" + printable(data.decode("utf-8", errors="replace")))
    held_out = bits_per_byte(trainer.model, text.held_out, config["eval_bytes"])
    result = {"held_out_bits_per_byte": held_out, "steps": config["steps"]}
    problem = keep_result(directory, result, problem, again)
    say(f"\nheld-out: {held_out:.3f} bits per byte")
    return 0 if problem is None else 1
