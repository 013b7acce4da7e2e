"""timm: small models of several kinds trained by its optimizers, schedules, mixing and averaged weights."""

import numpy as np
import timm
import torch
from made_up import fill, report
from PIL import Image
from timm.data import Mixup, create_transform
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import ModelEmaV3, dispatch_clip_grad

rng = np.random.RandomState(0)
x = torch.tensor(rng.randn(8, 3, 32, 32).astype(np.float32))
y = torch.tensor(rng.randint(0, 5, 8))
models = {
    "resnet": ("resnet10t", dict(stem_width=8, channels=(8, 16, 16, 32))),
    "vit": (
        "vit_tiny_patch16_224",
        dict(img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3),
    ),
    "convnext": ("convnext_atto", dict(depths=(1, 1, 1, 1), dims=(8, 8, 16, 16))),
    "swin": (
        "swin_tiny_patch4_window7_224",
        dict(img_size=32, window_size=4, embed_dim=12, depths=(1, 1), num_heads=(2, 3)),
    ),
    "mobilenet": ("mobilenetv3_small_050", {}),
}
optimizers = ("sgd", "adamw", "lamb", "lion", "rmsproptf")
for (name, (kind, how)), which in zip(models.items(), optimizers):
    model = fill(
        timm.create_model(kind, num_classes=5, drop_rate=0.0, drop_path_rate=0.0, **how), scale=0.1
    )
    if name in ("vit", "swin"):
        model.set_grad_checkpointing(True)
    optimizer = create_optimizer_v2(
        model,
        opt=which,
        lr=1e-2 if which == "sgd" else 1e-3,
        weight_decay=0.05,
        layer_decay=0.8 if name == "vit" else None,
    )
    schedule, _ = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=5, warmup_epochs=1, warmup_lr=1e-4
    )
    average = ModelEmaV3(model, decay=0.9)
    criterion = LabelSmoothingCrossEntropy(0.1)
    losses = []
    for epoch in range(4):
        loss = criterion(model(x), y)
        loss.backward()
        dispatch_clip_grad(model.parameters(), 1.0, mode="norm")
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
        schedule.step(epoch + 1)
        losses.append(loss.detach())
    report(
        f"{name} {which}",
        torch.stack(losses),
        torch.tensor([g["lr"] for g in optimizer.param_groups]),
    )
    model.eval()
    report(f"{name} features", model(x[:2]), average.module.eval()(x[:2]))

np.random.seed(0)
mixed, target = Mixup(0.4, 0.5, num_classes=5, prob=1.0, mode="batch")(x.clone(), y)
report(
    "mixed",
    mixed,
    SoftTargetCrossEntropy()(torch.tensor(rng.randn(8, 5).astype(np.float32)), target),
)
pyramid = fill(
    timm.create_model("resnet10t", features_only=True, stem_width=8, channels=(8, 16, 16, 32))
).eval()
report("pyramid", *pyramid(x[:1]))
picture = Image.fromarray(rng.randint(0, 256, (40, 50, 3)).astype(np.uint8))
report("picture", create_transform(32, is_training=False)(picture))
