"""`pyflame train tabular`: a network on a table, and how well it predicts rows that were held out.

What is here for programs: `Tabular`, the job, and `main`, the command.
"""

import json
import math
import os

from .. import _C, _files, _ops, manual_seed, memory
from ..autograd import no_grad
from ..checkpoint import Checkpoints, verify
from ..models.tabular import TabularNet
from ..nn import functional as F
from ..nn.utils import clip_grad_norm_
from ..optim import AdamW
from ..random import Generator
from ..serialization import load, save
from ..utils.data import DataLoader, TensorDataset
from .batch_size import find_batch_size
from .devices import describe_device, use
from .loop import Interrupts, Job, interrupted, keep_result, run_steps
from .output import say
from .progress import Progress
from .records import Events, JsonLines, Picture, Records
from .records import Table as CsvFile
from .runs import CONFIG, claimed, new_run, newest_directory, note_left_out, write_json
from .tables import Table

_LOG, _CSV, _PLOT, _BEST = "log.jsonl", "metrics.csv", "loss.png", "best.safetensors"
_EVALUATED = 4096  # rows at once


class _Order:
    """The batches of an epoch as lists of rows: a permutation that follows from (seed, epoch)."""

    def __init__(self, rows, batch, seed):
        self.rows, self.batch, self.seed = rows, batch, seed
        self.epoch = self.first = 0

    def __iter__(self):
        generator = Generator().manual_seed((self.seed * 1_000_003 + self.epoch) & (2**63 - 1))
        order = _ops.randperm(self.rows, device="cpu", generator=generator).tolist()
        for i in range(self.first * self.batch, self.rows, self.batch):
            yield order[i : i + self.batch]

    def __len__(self):
        return math.ceil(self.rows / self.batch) - self.first


class Tabular(Job):
    """Model, optimizer and batches over a :class:`Table`. A step is `accumulation` batches; its
    gradient is that of one batch of all their rows."""

    def __init__(
        self, config, table, *, num_workers=0, pin_memory=False, cleanup_every=0, directory=None
    ):
        self.config, self.table, self.directory = config, table, directory
        self.cleanup_every = cleanup_every
        manual_seed(config["seed"])
        self.model = TabularNet(
            table.input_size, config["hidden_layers"], table.output_size,
            dropout=config["dropout"], use_mixed_precision=config["mixed_precision"],
        )  # fmt: skip
        self.model.to(_C.get_device())
        self.parameters = list(self.model.parameters())
        self.optimizer = AdamW(
            self.parameters, lr=config["lr"], weight_decay=config["weight_decay"]
        )
        # Batches come from the CPU where something is to be done there; else they are cut out of
        # arrays on the device.
        self.device = _C.get_device()
        home = "cpu" if num_workers or pin_memory else self.device
        train = TensorDataset(*(_C.from_numpy(a).to(home) for a in table.train))
        self.held_out = [_C.from_numpy(a).to(self.device) for a in table.held_out]
        self.order = _Order(len(train), config["batch_size"], config["seed"])
        self.loader = DataLoader(
            train, batch_sampler=self.order, num_workers=num_workers, pin_memory=pin_memory,
            persistent_workers=num_workers > 0,
            generator=Generator().manual_seed(config["seed"]),
        )  # fmt: skip
        self.batches = None
        micro = math.ceil(len(train) / config["batch_size"])
        self.steps_an_epoch = math.ceil(micro / config["accumulation"])
        self.total = config["epochs"] * self.steps_an_epoch
        self.best, self.worse = math.inf, 0

    def loss(self, x, y):
        out = self.model(x)
        return (
            F.cross_entropy(out, y) if self.table.task == "classification" else F.mse_loss(out, y)
        )

    def _next(self):
        x, y = next(self.batches)
        return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    def train_step(self):
        config = self.config
        epoch, within = divmod(self.step, self.steps_an_epoch)
        if self.batches is None or within == 0:
            self.order.epoch, self.order.first = epoch, within * config["accumulation"]
            self.batches = iter(self.loader)
        if config["dropout"]:
            manual_seed((config["seed"] * 1_000_003 + self.step + 1) & (2**63 - 1))
        size = config["batch_size"]
        first = within * config["accumulation"] * size
        rows = min(self.order.rows - first, size * config["accumulation"])
        lr = _ops._warmup_cosine(
            self.step, max(1, self.total // 20), self.total, config["lr"], config["lr"] * 0.02
        )
        self.optimizer.zero_grad()
        total = None
        for _ in range(math.ceil(rows / size)):
            x, y = self._next()
            loss = self.loss(x, y)
            if x.shape[0] != rows:
                loss = loss * (x.shape[0] / rows)
            loss.backward()
            loss = loss.detach()
            total = loss if total is None else total + loss
        if config["clip"]:
            clip_grad_norm_(self.parameters, config["clip"])
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.step += 1
        return total

    def after_step(self, records):
        if self.cleanup_every and self.step % self.cleanup_every == 0:
            memory.aggressive_memory_cleanup()
        if self.step % self.steps_an_epoch:
            return
        loss, score = self.evaluate()
        name = "accuracy" if self.table.task == "classification" else "rmse"
        records.add(
            {
                "step": self.step,
                "epoch": self.step // self.steps_an_epoch,
                "held_out_loss": loss,
                name: score,
            }
        )
        if loss < self.best:
            self.best, self.worse = loss, 0
            if self.directory is not None:
                try:
                    save(self.model.state_dict(), os.path.join(self.directory, _BEST))
                except OSError as e:  # training is worth more than this copy
                    say(f"warning: the best weights could not be kept: {e}")
        else:
            self.worse += 1
            self.done = bool(self.config["patience"]) and self.worse >= self.config["patience"]

    def evaluate(self):
        """(loss, accuracy or root of the mean squared error in the target's units), held out."""
        x, y = self.held_out
        n, loss, right = x.shape[0], 0.0, 0.0
        self.model.eval()
        with no_grad():
            for i in range(0, n, _EVALUATED):
                out = self.model(x[i : i + _EVALUATED])
                want = y[i : i + _EVALUATED]
                if self.table.task == "classification":
                    loss += F.cross_entropy(out, want, reduction="sum").item()
                    right += (out.argmax(1) == want).sum().item()
                else:
                    loss += F.mse_loss(out, want, reduction="sum").item()
        self.model.train()
        if self.table.task == "classification":
            return loss / n, right / n
        return loss / n, math.sqrt(loss / n) * self.table.deviation

    def state(self):
        return {
            "config": self.config,
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best if math.isfinite(self.best) else None,
            "worse": self.worse,
            "done": self.done,
        }

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.worse, self.done = state["step"], state["worse"], state["done"]
        self.best = math.inf if state["best"] is None else state["best"]
        self.batches = None


# ---- the command --------------------------------------------------------------------------------


def _table(config, data):
    table = Table(
        data, target=config["target"], task=config["task"], held_out=config["held_out"],
        split=config["split"], seed=config["seed"], data_fraction=config["data_fraction"],
        delimiter=config["delimiter"],
    )  # fmt: skip
    for note in table.notes:
        say(f"note: {note}")
    return table


def _fresh(args):
    data = args.data if args.data == "digits" else os.path.abspath(args.data)
    config = {
        "format": 1,
        "job": "tabular",
        "data": data,
        "target": args.target,
        "task": args.task,
        "held_out": args.held_out,
        "split": args.split,
        "data_fraction": args.data_fraction,
        "delimiter": args.delimiter,
        "hidden_layers": args.hidden_layers,
        "dropout": args.dropout,
        "mixed_precision": args.use_mixed_precision,
        "batch_size": args.batch_size,
        "accumulation": args.gradient_accumulation_steps,
        "epochs": args.epochs,
        "lr": args.lr,
        "weight_decay": args.weight_decay,
        "clip": args.clip,
        "patience": args.patience,
        "seed": args.seed,
        "log_interval": args.log_interval,
    }
    table = _table(config, data)
    config["fingerprint"] = table.fingerprint
    if config["batch_size"] == "auto":
        config["batch_size"] = _measured(config, table, args)
        say(f"batch size: {config['batch_size']}, from the memory that a step takes")
    return config, table


def _measured(config, table, args):
    rows = len(table.train[0])
    probe = Tabular({**config, "batch_size": 1, "epochs": 1}, table)

    def step(n):
        probe.optimizer.zero_grad()
        index = _ops.arange(n) % rows
        probe.loss(*(t[index] for t in probe.loader.dataset.tensors)).backward()
        probe.optimizer.step()

    return find_batch_size(step, low=args.min_batch_size, high=args.max_batch_size)


_FIELDS = {
    "data": str,
    "hidden_layers": list,
    "batch_size": int,
    "accumulation": int,
    "epochs": int,
    "lr": float,
    "seed": int,
    "fingerprint": str,
    "log_interval": int,
}


def _read_config(directory):
    path = os.path.join(directory, CONFIG)
    try:
        config = json.loads(_files.read_regular(path, "train", 1 << 20).decode("utf-8"))
        if type(config) is not dict or config.get("job") != "tabular":
            raise ValueError("it is not of `pyflame train tabular`")
        for name, kind in _FIELDS.items():
            if type(config.get(name)) is not kind and not (
                kind is float and type(config.get(name)) is int
            ):
                raise ValueError(f"'{name}' is {str(config.get(name))[:40]!r}")
    except (OSError, ValueError, RecursionError) as e:
        raise _C.FileError(
            f"pf.train: '{path}' is missing or damaged ({e}); expected the configuration of a run; "
            "start a new run"
        ) from None
    return config


def _checkpoint(wanted):
    """The directory of the run that `wanted` means, a run or one of its checkpoints, and the path of
    that checkpoint or None."""
    if os.path.exists(os.path.join(wanted, CONFIG)):
        return wanted, None
    verify(wanted)
    return os.path.dirname(os.path.abspath(wanted)), os.path.abspath(wanted)


def _resumed(args):
    """(directory, path of the checkpoint to go on from or None for the newest)."""
    if args.resume_from_checkpoint is True:
        return newest_directory(args.out), None
    directory, path = _checkpoint(args.resume_from_checkpoint)
    _read_config(directory)
    paths = Checkpoints(directory).paths()
    if path is None or (paths and os.path.samefile(path, paths[-1])):
        return directory, None
    return directory, path


def run(args):
    """The whole command; returns the exit status."""
    use(args)
    if args.resume_from_checkpoint is None:
        config, table = _fresh(args)
        with new_run(args.out) as directory:
            write_json(os.path.join(directory, CONFIG), config)
            return _run(args, directory, config, table, None)
    directory, path = _resumed(args)
    config = _read_config(directory)
    note_left_out(args, config)
    table = _table(config, config["data"])
    if table.fingerprint != config["fingerprint"]:
        raise _C.ValueError(
            f"pf.train: the table '{config['data']}' is not the one that the run in '{directory}' "
            "began with; expected the same rows; restore it or start a new run"
        )
    if path is not None:  # an older one: what came after it stays where it is
        state = load(os.path.join(path, "state.safetensors"))
        with new_run(directory) as branch:
            write_json(os.path.join(branch, CONFIG), config)
            return _run(args, branch, config, table, state)
    with claimed(directory):
        found = Checkpoints(directory).load()
        return _run(args, directory, config, table, found.state if found else None)


def _records(args, directory, step, task):
    score = "accuracy" if task == "classification" else "rmse"
    log = JsonLines(os.path.join(directory, _LOG))
    parts = [log, CsvFile(os.path.join(directory, _CSV), ["epoch", "loss", "held_out_loss", score])]
    if args.tensorboard:
        parts.append(Events(os.path.join(directory, "events"), step))
    records = Records(*parts)
    records.cut(step)
    picture = None
    if args.plot:
        picture = Picture(os.path.join(directory, _PLOT), ["loss", "held_out_loss"])
        picture.read(log.path)
        records.parts += (picture,)
    return records, picture


def _run(args, directory, config, table, state):
    job = Tabular(
        config, table, num_workers=args.num_workers, pin_memory=args.pin_memory,
        cleanup_every=args.cleanup_every, directory=directory,
    )  # fmt: skip
    if state is not None:
        if not isinstance(state, dict) or state.get("config") != config:
            raise _C.ValueError(
                f"pf.train: the checkpoint belongs to another configuration than '{directory}'; "
                "expected one run; start a new one"
            )
        job.load(state)
    records, picture = _records(args, directory, job.step, table.task)
    count = sum(p.numel() for p in job.parameters)
    what = f"{table.output_size} classes" if table.classes else "a number"
    say(f"table: {table.name}, '{table.target}' ({what}) from {table.input_size} features, "
        f"{len(table.train[0]):,} rows to learn from, {len(table.held_out[0]):,} held out")  # fmt: skip
    say(f"model: hidden layers {config['hidden_layers']}, {count:,} parameters, products in "
        f"{'bfloat16' if config['mixed_precision'] else 'float32'}")  # fmt: skip
    say(f"device: {describe_device()}")
    rows = config["batch_size"] * config["accumulation"]
    say(f"run: {directory}, {config['epochs']} epochs of {job.steps_an_epoch} steps of {rows} rows"
        + (f", going on at step {job.step}" if state is not None else ""))  # fmt: skip
    with Interrupts() as interrupts:
        progress = Progress(
            "train tabular", job.total, job.step, rows, what="rows", unit="",
        )  # fmt: skip
        stopped, problem = run_steps(
            job, Checkpoints(directory, keep=args.keep), interrupts, progress, records,
            every=args.checkpoint_interval, log_every=config["log_interval"],
            saved=job.step if state is not None else None,
        )  # fmt: skip
    if picture is not None:
        picture.flush(last=True)
    again = f"pyflame train tabular --resume_from_checkpoint --out {directory}"
    if stopped is not None:
        return interrupted(job, stopped, problem, again)
    return _finish(job, directory, problem, again)


def _finish(job, directory, problem, again):
    table = job.table
    best = os.path.join(directory, _BEST)
    if job.config["patience"] and os.path.exists(best):
        job.model.load_state_dict(load(best))
    loss, score = job.evaluate()
    base = table.baseline()
    result = {"steps": job.step, "held_out_loss": loss, "baseline": base}
    if table.task == "classification":
        result["accuracy"] = score
        line = f"held-out: {score:.1%} right; always the most frequent class: {base:.1%}"
    else:
        result["rmse"] = score
        line = (
            f"held-out: off by {score:.4g} (root of the mean square); always the mean: {base:.4g}"
        )
    problem = keep_result(directory, result, problem, again)
    if job.done:
        say(
            f"stopped early at step {job.step} of {job.total}: {job.worse} epochs without a better loss"
        )
    say(f"\n{line}")
    return 0 if problem is None else 1


def main(argv=None):
    """The command `pyflame train tabular` with these arguments (sys.argv's when None)."""
    import sys

    from ..cli import main as pyflame

    return pyflame(["train", "tabular", *(sys.argv[1:] if argv is None else argv)])
