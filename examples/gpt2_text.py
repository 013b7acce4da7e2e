"""A small GPT-2 from text to text: tokens in a file, training, weights in Hugging Face's layout, and
writing with captured steps.

Ends with status 1 when held-out tokens cost more than their frequencies alone would (their entropy).
"""

import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np

import pyflame as pf
from pyflame.datasets import Tokens
from pyflame.models import GPT2
from pyflame.training import token_files
from pyflame.training.tokenizers import tokenizer
from pyflame.utils.data import DataLoader


def main(steps=200, text=None):
    """Trains on `text` (a file or folder; Python's standard library without it); returns (cost of a
    held-out token, its entropy), in nats."""
    folder = Path(tempfile.mkdtemp())
    how, note = tokenizer()  # GPT-2's by tiktoken where it is installed, else bytes
    about = token_files.make(text, folder, how)
    print(
        note or f"tokens by {how.name}", f"{about['train_tokens']:,} tokens to learn from", sep="\n"
    )

    pf.manual_seed(1)
    train = Tokens(folder / "train.bin", length=128, stride=64, vocab=how.vocab)
    held_out = Tokens(folder / "val.bin", length=128, vocab=how.vocab)
    model = GPT2(vocab=how.vocab, layers=4, width=128, heads=4, context=128)
    groups = model.parameter_groups(weight_decay=0.1)
    optimizer = pf.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    schedule = pf.optim.lr_scheduler.WarmupCosineLR(optimizer, steps // 20 + 1, steps)

    @pf.compile(mode="reduce-overhead")
    def step(x, y):
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        pf.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    batches = DataLoader(train, 16, shuffle=True, drop_last=True)
    again = itertools.chain.from_iterable(itertools.repeat(batches))
    for i, (x, y) in zip(range(steps), again):
        loss = step(x.contiguous(), y.contiguous())  # they are two views of one tensor
        schedule.step()
        if i % 50 == 0 or i == steps - 1:
            print(f"step {i}: {loss.item():.3f} nats per token", flush=True)

    model.save_pretrained(folder / "model")  # config.json and model.safetensors
    model = GPT2.from_pretrained(folder / "model")
    with pf.no_grad():
        costs = [model(x, y).item() for x, y in itertools.islice(DataLoader(held_out, 32), 40)]
    counts = np.bincount(np.fromfile(folder / "val.bin", "<u2")).astype(float)
    share = counts[counts > 0] / counts.sum()
    cost, entropy = sum(costs) / len(costs), float(-(share * np.log(share)).sum())
    print(f"held-out: {cost:.3f} nats per token; by their frequencies alone {entropy:.3f}")

    say = how.stream()
    prompt = how.encode(b"def main():\n")
    for (token,) in model.stream([prompt], 100, top_p=0.9, seed=1, eos=how.end, compile=True):
        print(say(token), end="", flush=True)
    print()
    return cost, entropy


if __name__ == "__main__":
    cost, entropy = main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, *sys.argv[2:3])
    sys.exit(cost >= entropy)
