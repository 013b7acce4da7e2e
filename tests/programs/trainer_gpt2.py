"""transformers' Trainer: GPT-2 with gradient checkpointing, accumulation, a cosine schedule, evaluation,
checkpoints, and a second run that goes on from one."""

import os
import tempfile

import numpy as np
import torch
from datasets import Dataset
from made_up import fill, report
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

rng = np.random.RandomState(0)
rows = rng.randint(0, 50, (40, 16))
rows[:, 1::2] = (rows[:, ::2] * 3 + 1) % 50  # what there is to learn
data = Dataset.from_dict({"input_ids": rows.tolist(), "labels": rows.tolist()})
config = GPT2Config(
    vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip


class Losses(TrainerCallback):
    def __init__(self, name):
        self.name = name

    def on_log(self, args, state, control, logs=None, **others):
        kept = [logs[k] for k in ("loss", "grad_norm", "learning_rate", "eval_loss") if k in logs]
        report(f"{self.name} {state.global_step}", torch.tensor(kept, dtype=torch.float64))


def trainer(name, folder, **others):
    model = fill(GPT2LMHeadModel(config))
    arguments = dict(
        output_dir=folder, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        num_train_epochs=2, learning_rate=5e-3, lr_scheduler_type="cosine", warmup_steps=2,
        weight_decay=0.01, max_grad_norm=1.0, logging_steps=1, save_steps=4, eval_strategy="steps", eval_steps=5,
        report_to=[], disable_tqdm=True, use_cpu=not torch.cuda.is_available(), train_sampling_strategy="sequential",
    )  # fmt: skip
    return Trainer(
        model, TrainingArguments(**(arguments | others)), train_dataset=data.select(range(32)),
        eval_dataset=data.select(range(32, 40)), callbacks=[Losses(name)],
    )  # fmt: skip


with tempfile.TemporaryDirectory() as folder:
    first = trainer("plain", folder)
    first.train()
    report("logits", first.model(torch.tensor(rows[:4]).to(first.model.device)).logits)
    assert {"checkpoint-4", "checkpoint-8"} <= set(os.listdir(folder))
    again = trainer("resumed", folder)
    again.train(resume_from_checkpoint=folder + "/checkpoint-4")
    predicted = again.predict(data.select(range(32, 36)))
    report(
        "predicted",
        torch.tensor(predicted.predictions),
        torch.tensor(predicted.metrics["test_loss"]),
    )
for name, how in (
    ("checkpointing", dict(gradient_checkpointing=True)),
    ("bfloat16", dict(bf16=True)),
    ("compiled", dict(torch_compile=True)),
    ("adafactor", dict(optim="adafactor", lr_scheduler_type="linear")),
    ("smoothed", dict(label_smoothing_factor=0.1, lr_scheduler_type="cosine_with_restarts")),
    ("sgd", dict(optim="sgd", lr_scheduler_type="polynomial")),
):
    with tempfile.TemporaryDirectory() as folder:
        trainer(name, folder, max_steps=4, save_strategy="no", eval_strategy="no", **how).train()
