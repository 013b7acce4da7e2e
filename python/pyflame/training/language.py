"""What `pyflame train gpt` trains: model, optimizer and batches, and how held-out text is predicted."""

import math
from contextlib import nullcontext

from .. import _C, _ops, manual_seed
from ..amp import autocast
from ..autograd import no_grad
from ..compiler import compile as _compile
from ..models.gpt import GPT, GPTConfig
from ..models.gpt2 import GPT2, GPT2Config
from ..nn import functional as F
from ..nn.utils import clip_grad_norm_
from ..optim import AdamW
from . import text as texts
from .devices import on_gpu
from .loop import Job

KINDS = {"bytes": (GPT, GPTConfig), "gpt2": (GPT2, GPT2Config)}


def kind_of(config):
    """The kind of model that a run's configuration is about; runs of old say nothing."""
    return config.get("kind", "bytes")


def narrow_weights(config):
    """Whether a run's weights are in bfloat16, beside masters; runs of old say nothing."""
    return config.get("weights") == "bfloat16"


def make_model(config):
    model = _float32_model(config)
    return model.to(_C.bfloat16) if narrow_weights(config) else model


def _float32_model(config):
    manual_seed(config["seed"])
    if config.get("init"):
        model = GPT2.from_pretrained(config["init"], dtype=_C.float32).train()
        # Dropout is the run's own.
        start = model.state_dict()
        model = GPT2(GPT2Config(**config["model"]))
        model.load_state_dict(start)
        return model
    model, sizes = KINDS[kind_of(config)]
    return model(sizes(**config["model"]))


def make_optimizer(model, config):
    groups = model.parameter_groups(config["weight_decay"])
    return AdamW(
        groups, lr=config["lr"], betas=(0.9, 0.95), eps=1e-8, master_weights=narrow_weights(config)
    )


class Trainer(Job):
    """Model, optimizer and batches. `text.train` and `text.held_out` are what training/text.py makes
    windows of. A step is `accumulation` batches; its gradient is that of one batch of all of them."""

    def __init__(self, config, text):
        self.config = config
        self.model = make_model(config)
        self.optimizer = make_optimizer(self.model, config)
        self.parameters = list(self.model.parameters())
        self.accumulation = config.get("accumulation", 1)
        self.batches = texts.Batches(
            text.train, config["batch"], config["model"]["context"], config["seed"]
        )
        self.text = text
        self.total = config["steps"]
        self.bits = kind_of(config) == "bytes"
        self.autocast = nullcontext()
        if config.get("precision") == "bfloat16":
            self.autocast = autocast("cuda" if on_gpu() else "cpu", _C.bfloat16)
        self.compute = self._compute
        if config.get("compile"):
            self.compute = _compile(self._compute, mode="reduce-overhead")

    def tokens_a_step(self):
        config = self.config
        return config["batch"] * config["model"]["context"] * self.accumulation

    def rate(self):
        c = self.config
        return _ops._warmup_cosine(self.step, c["warmup"], c["steps"], c["lr"], c["lr"] * 0.02)

    def _compute(self, *windows):
        """A step's work on the device: nothing in it depends on the number of the step, so that it can
        be captured."""
        self.optimizer.zero_grad()
        total = None
        for window in windows:
            with self.autocast:
                loss = self.model(window[:, :-1], window[:, 1:])
            if len(windows) > 1:
                loss = loss * (1.0 / len(windows))
            loss.backward()
            loss = loss.detach()
            total = loss if total is None else total + loss
        clip_grad_norm_(self.parameters, self.config["clip"])
        self.optimizer.step()
        return total

    def train_step(self):
        config = self.config
        if config["model"]["dropout"]:
            manual_seed((config["seed"] * 1_000_003 + self.step + 1) & (2**63 - 1))
        first = self.step * self.accumulation
        windows = [self.batches.window(first + i) for i in range(self.accumulation)]
        lr = self.rate()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss = self.compute(*windows)
        self.step += 1
        return loss

    def shown(self, loss):
        return loss / math.log(2) if self.bits else loss

    def entry(self, shown):
        return {"bits_per_byte" if self.bits else "loss": shown}

    def held_out(self):
        """What a token costs in held-out text: of bytes in bits, in float32 if weights are; of others
        in nats."""
        limit = self.config["eval_bytes"]
        with nullcontext() if self.bits and not narrow_weights(self.config) else self.autocast:
            batch = {} if self.bits else {"batch": self.config["batch"]}
            return self.shown(held_out_loss(self.model, self.text.held_out, limit, **batch))

    def after_step(self, records):
        every = self.config.get("eval_interval", 0)
        if every and self.step % every == 0 and self.step < self.total:
            records.add(
                {"step": self.step, **{f"held_out_{k}": v for k, v in self.entry(self.held_out()).items()}}
            )  # fmt: skip

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


def held_out_loss(model, data, limit, batch=16):
    """Mean cross-entropy in nats over evenly spread windows, about `limit` tokens, each predicted from
    its own start."""
    context = model.config.context
    starts = texts.windows(data, context, limit)
    offsets = _ops.arange(context + 1).unsqueeze(0)
    was_training = model.training
    model.eval()
    nats = 0.0
    with no_grad():
        for i in range(0, len(starts), batch):
            window = texts.at(data, starts[i : i + batch], offsets)
            logits = model(window[:, :-1])
            nats += F.cross_entropy(
                logits.view(-1, logits.shape[-1]), window[:, 1:].reshape(-1), reduction="sum"
            ).item()
    model.train(was_training)
    return nats / (len(starts) * context)
