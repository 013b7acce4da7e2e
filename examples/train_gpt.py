"""Trains a byte-level GPT on the source of Python's standard library, in twenty lines.

`pyflame train gpt` does the same with a progress bar, checkpoints and a held-out evaluation.
"""

import glob
import sys
import sysconfig

import pyflame as pf
from pyflame.models import GPT
from pyflame.optim.lr_scheduler import WarmupCosineLR

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
files = sorted(glob.glob(sysconfig.get_paths()["stdlib"] + "/*.py"))
text = pf.frombuffer(bytearray(b"".join(open(f, "rb").read() for f in files)), dtype=pf.uint8)

pf.manual_seed(1)
model = GPT(layers=4, width=128, heads=4, context=128)
optimizer = pf.optim.AdamW(model.parameter_groups(weight_decay=0.1), lr=4e-3, betas=(0.9, 0.95))
schedule = WarmupCosineLR(optimizer, warmup_steps=steps // 20, total_steps=steps)

for step in range(steps):
    starts = pf.randint(0, len(text) - 128, (16, 1))
    window = text[starts + pf.arange(129)].long()
    loss = model(window[:, :-1], window[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    pf.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 50 == 0 or step == steps - 1:
        print(f"step {step}: {loss.item() / 0.6931:.3f} bits per byte", flush=True)

out = model.generate(pf.tensor([list(b"def ")]), min(300, 10 * steps), temperature=0.8)
print(bytes(out[0].tolist()).decode(errors="replace"))
