"""accelerate: a loop of one's own with accumulation, clipping, mixed precision, a schedule, checkpoints that
a second loop goes on from; to be started by `accelerate launch`, too."""

import argparse
import os
import tempfile

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from made_up import fill, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="no")
args = parser.parse_args()
set_seed(1)
rng = np.random.RandomState(0)
x = torch.tensor(rng.randn(48, 6).astype(np.float32))
y = (x[:, :3] * x[:, 3:]).sum(1, keepdim=True)


def run(folder, steps, resume=False, name=""):
    accelerator = Accelerator(
        gradient_accumulation_steps=2,
        mixed_precision=args.precision,
        cpu=not torch.cuda.is_available(),
    )
    model = fill(
        nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1)), scale=0.4
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    accelerator.register_for_checkpointing(schedule)
    if resume:
        accelerator.load_state(folder)
    losses = []
    for _ in range(steps):
        for a, b in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(a).float(), b)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().cpu())
    accelerator.save_state(folder)
    accelerator.save_model(model, os.path.join(folder, "weights"))
    report(
        f"{name} {args.precision}",
        torch.stack(losses),
        *accelerator.unwrap_model(model).parameters(),
    )
    report(f"{name} rate", torch.tensor(schedule.get_last_lr()))
    accelerator.free_memory()


with tempfile.TemporaryDirectory() as folder:
    run(folder, 2, name="first")
    run(folder, 1, True, name="second")
    kept = sorted(os.listdir(folder))
    assert "model.safetensors" in kept and "weights" in kept, kept
