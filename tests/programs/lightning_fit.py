"""lightning: Trainer.fit with validation, a schedule, clipping, accumulation, mixed precision, early
stopping, checkpoints and going on from one."""

import logging
import tempfile
import warnings

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import (
    EarlyStopping,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from made_up import fill, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
rng = np.random.RandomState(0)
x = torch.tensor(rng.randn(64, 8).astype(np.float32))
y = torch.tensor((np.abs(x.numpy()).sum(1) > 6).astype(np.int64))


class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(TensorDataset(x[:48], y[:48]), batch_size=8)

    def val_dataloader(self):
        return DataLoader(TensorDataset(x[48:], y[48:]), batch_size=8)

    predict_dataloader = test_dataloader = val_dataloader


class Net(L.LightningModule):
    def __init__(self, name="", rate=0.02, manual=False):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)
        )
        self.automatic_optimization = not manual
        self.losses = []

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True, on_epoch=True)
        self.losses.append(loss.detach().float().cpu())
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(optimizer, 0.5, "norm")
            optimizer.step()
            if self.trainer.is_last_batch:
                self.lr_schedulers().step()
        return loss

    def validation_step(self, batch, index):
        out = self(batch[0])
        self.log_dict(
            {
                "val_loss": nn.functional.cross_entropy(out, batch[1]),
                "right": (out.argmax(1) == batch[1]).float().mean(),
            }
        )

    test_step = validation_step

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.rate)
        schedule = (
            torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=40)
            if self.automatic_optimization
            else torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        )
        if not self.automatic_optimization:
            return [optimizer], [schedule]
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def trainer(folder, epochs=3, callbacks=(), **how):
    return L.Trainer(
        max_epochs=epochs, default_root_dir=folder, logger=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="auto", devices=1, callbacks=list(callbacks), **how,
    )  # fmt: skip


def told(t, net):
    kept = {k: float(v) for k, v in t.callback_metrics.items()}
    report(net.hparams.name, torch.stack(net.losses), *net.parameters())
    report(
        net.hparams.name + " " + " ".join(sorted(kept)),
        torch.tensor([kept[k] for k in sorted(kept)]),
    )


for name, how in (
    ("plain", {}),
    ("accumulated", dict(accumulate_grad_batches=2, gradient_clip_val=0.5)),
    (
        "by value",
        dict(gradient_clip_val=0.05, gradient_clip_algorithm="value", limit_train_batches=4),
    ),
    ("bfloat16", dict(precision="bf16-mixed")),
    ("double", dict(precision="64-true")),
):
    with tempfile.TemporaryDirectory() as folder:
        net, t = fill(Net(name), scale=0.3), trainer(folder, **how)
        t.fit(net, Data())
        told(t, net)
with tempfile.TemporaryDirectory() as folder:
    keep = ModelCheckpoint(folder, monitor="val_loss", save_top_k=1, save_last=True)
    net, t = fill(Net("kept"), scale=0.3), trainer(folder, 2, [keep, EarlyStopping("val_loss")])
    t.fit(net, Data())
    report("best", torch.tensor(float(keep.best_model_score)))
    again = fill(Net("resumed"), scale=0.3)
    t = trainer(folder, 4)
    t.fit(again, Data(), ckpt_path=folder + "/last.ckpt", weights_only=False)
    told(t, again)
    loaded = Net.load_from_checkpoint(keep.best_model_path, map_location="cpu").eval()
    report("loaded", loaded(x[:4]))
    (tested,) = t.test(again, Data(), verbose=False)
    report("tested", torch.tensor([tested["val_loss"], tested["right"]]))
    report("predicted", torch.cat(t.predict(again, Data())))
with tempfile.TemporaryDirectory() as folder:
    net, t = fill(Net("manual", manual=True), scale=0.3), trainer(folder)
    t.fit(net, Data())
    told(t, net)
with tempfile.TemporaryDirectory() as folder:
    net, t = (
        fill(Net("averaged"), scale=0.3),
        trainer(folder, 4, [StochasticWeightAveraging(1e-2, 2, 1)]),
    )
    t.fit(net, Data())
    told(t, net)
