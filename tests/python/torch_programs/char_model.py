"""Trains a small GPT on characters, in the manner of programs that are one file: configuration by
globals, memory-mapped data, gradient accumulation, checkpoints, resuming, sampling."""

import math
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

out_dir, init_from, max_iters = "out", "scratch", 30
eval_interval, eval_iters, accumulate = 10, 2, 2
batch_size, block_size = 8, 16
learning_rate, min_lr, warmup = 1e-2, 1e-3, 5
device, dtype, compile = "cpu", "float32", True
for argument in sys.argv[1:]:
    key, value = argument.removeprefix("--").split("=")
    globals()[key] = type(globals()[key])(value)


@dataclass
class Config:
    block_size: int = 16
    vocab_size: int = 32
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32
    dropout: float = 0.0
    bias: bool = False


class Norm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd, bias=c.bias)
        self.c_proj = nn.Linear(c.n_embd, c.n_embd, bias=c.bias)
        self.n_head, self.n_embd, self.dropout = c.n_head, c.n_embd, c.dropout
        self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")
        mask = torch.tril(torch.ones(c.block_size, c.block_size))
        self.register_buffer("mask", mask.view(1, 1, c.block_size, c.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if self.flash and self.training:
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=None, dropout_p=self.dropout, is_causal=True
            )
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.attn = Norm(c.n_embd, c.bias), Attention(c)
        self.ln_2 = Norm(c.n_embd, c.bias)
        self.mlp = nn.Sequential(
            nn.Linear(c.n_embd, 4 * c.n_embd, bias=c.bias), nn.GELU(),
            nn.Linear(4 * c.n_embd, c.n_embd, bias=c.bias), nn.Dropout(c.dropout),
        )  # fmt: skip

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(c.vocab_size, c.n_embd),
                wpe=nn.Embedding(c.block_size, c.n_embd),
                drop=nn.Dropout(c.dropout),
                h=nn.ModuleList([Block(c) for _ in range(c.n_layer)]),
                ln_f=Norm(c.n_embd, bias=c.bias),
            )
        )
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        # The same numbers under every library, and no symmetry.
        if isinstance(module, (nn.Linear, nn.Embedding)):
            n = module.weight.numel()
            with torch.no_grad():
                values = torch.sin(torch.arange(n, dtype=torch.float64) * 12.9898 + n)
                module.weight.data.copy_((values * 43758.5453).sin().view_as(module.weight) * 0.1)

    def forward(self, idx, targets=None):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
        )

    def configure_optimizers(self, weight_decay, learning_rate, betas):
        named = {n: p for n, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in named.values() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)

    @torch.no_grad()
    def generate(self, idx, count, temperature=1.0, top_k=None):
        for _ in range(count):
            logits, _ = self(idx[:, -self.config.block_size :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend="gloo")
os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
ctx = nullcontext() if dtype == "float32" else torch.amp.autocast(device_type, ptdtype)

text = ("the quick brown fox jumps over the lazy dog. " * 60)[:2400]
letters = sorted(set(text))
np.array([letters.index(c) for c in text], np.uint16).tofile(os.path.join(out_dir, "data.bin"))
draw = np.random.default_rng(0)


def get_batch():
    data = np.memmap(os.path.join(out_dir, "data.bin"), dtype=np.uint16, mode="r")
    ix = torch.from_numpy(draw.integers(0, len(data) - block_size, batch_size))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack(
        [torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix]
    )
    return x.to(device), y.to(device)


iter_num, best = 0, 1e9
arguments = dict(block_size=block_size, vocab_size=len(letters))
if init_from != "scratch":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"), map_location=device)
    arguments = checkpoint["model_args"]
model = GPT(Config(**arguments))
optimizer = model.configure_optimizers(1e-1, learning_rate, (0.9, 0.95))
if init_from != "scratch":
    state = checkpoint["model"]
    for k in list(state):
        if k.startswith("_orig_mod."):
            state[k.removeprefix("_orig_mod.")] = state.pop(k)
    model.load_state_dict(state)
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num, best = checkpoint["iter_num"], checkpoint["best_val_loss"]
    draw.bit_generator.state = checkpoint["draw"]
    checkpoint = None
model.to(device)
scaler = torch.amp.GradScaler(device_type, enabled=(dtype == "float16"))
raw = model
if compile:
    model = torch.compile(model)
if ddp:
    model = DDP(model)


@torch.no_grad()
def estimate():
    model.eval()
    before = draw.bit_generator.state
    losses = torch.zeros(eval_iters)
    for k in range(eval_iters):
        X, Y = get_batch()
        with ctx:
            _, loss = model(X, Y)
        losses[k] = loss.item()
    draw.bit_generator.state = before
    model.train()
    return losses.mean()


def get_lr(it):
    if it < warmup:
        return learning_rate * (it + 1) / (warmup + 1)
    ratio = min((it - warmup) / 60, 1.0)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


if init_from == "sample":
    model.eval()
    start = torch.tensor([[letters.index("t")]], device=device)
    print("sample", "".join(letters[i] for i in raw.generate(start, 20, 0.8, top_k=3)[0].tolist()))
    sys.exit()

while iter_num <= max_iters:
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    if iter_num % eval_interval == 0:
        loss = estimate()
        print(f"eval {iter_num} {loss:.4f}")
        if loss < best:
            best = loss
            torch.save(
                {
                    "model": raw.state_dict(), "optimizer": optimizer.state_dict(),
                    "model_args": arguments, "iter_num": iter_num, "best_val_loss": best,
                    "config": asdict(raw.config), "draw": draw.bit_generator.state,
                },
                os.path.join(out_dir, "ckpt.pt"),
            )  # fmt: skip
    for _ in range(accumulate):
        X, Y = get_batch()
        with ctx:
            _, loss = model(X, Y)
            loss = loss / accumulate
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"loss {iter_num} {loss.item() * accumulate:.5f}")
    iter_num += 1
if ddp:
    destroy_process_group()
