"""diffusers: a small UNet learns to take noise away (with checkpointing and averaged weights), schedulers of
several kinds sample, an autoencoder and a transformer go there and back."""

import tempfile

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    SD3Transformer2DModel,
    UNet2DConditionModel,
    UNet2DModel,
    UniPCMultistepScheduler,
)
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel
from made_up import fill, report
from torch.nn import functional as F

rng = np.random.RandomState(0)


# Of both networks.
small = dict(layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8)


def tensor(*shape):
    return torch.tensor(rng.randn(*shape).astype(np.float32))


def unet():
    return fill(
        UNet2DModel(
            sample_size=16,
            in_channels=1,
            out_channels=1,
            **small,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            attention_head_dim=8,
        )  # fmt: skip
    )


for checkpointing in (False, True):
    model = unet()
    if checkpointing:
        model.enable_gradient_checkpointing()
    noise = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 8)
    average = EMAModel(model.parameters(), decay=0.9, use_ema_warmup=True)
    losses = []
    rng = np.random.RandomState(1)
    for _ in range(6):
        clean, drawn = tensor(2, 1, 16, 16) * 0.3, tensor(2, 1, 16, 16)
        steps = torch.tensor(rng.randint(0, 100, 2))
        out = model(noise.add_noise(clean, drawn, steps), steps).sample
        loss = F.mse_loss(out, drawn)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        average.step(model.parameters())
        losses.append(loss.detach())
    report(f"losses {checkpointing}", torch.stack(losses))
average.copy_to(model.parameters())
model.eval()

start = tensor(1, 1, 16, 16)
for kind in (
    DDIMScheduler, PNDMScheduler, EulerDiscreteScheduler, HeunDiscreteScheduler, LMSDiscreteScheduler,
    DPMSolverMultistepScheduler, UniPCMultistepScheduler, FlowMatchEulerDiscreteScheduler,
):  # fmt: skip
    scheduler = kind(num_train_timesteps=100)
    scheduler.set_timesteps(5)
    x = start * getattr(scheduler, "init_noise_sigma", 1.0)
    with torch.no_grad():
        for t in scheduler.timesteps:
            given = (
                scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
            )
            x = scheduler.step(model(given, t).sample, t, x).prev_sample
    report(kind.__name__, x)

with tempfile.TemporaryDirectory() as folder:
    DDIMPipeline(model, DDIMScheduler(num_train_timesteps=100)).save_pretrained(folder)
    again = DDIMPipeline.from_pretrained(folder)
    again.set_progress_bar_config(disable=True)
    report("pipeline", again.unet(start, 3).sample)
    pictures = again(batch_size=2, num_inference_steps=2, output_type="np").images
    assert pictures.shape == (2, 16, 16, 1) and np.isfinite(pictures).all()

conditioned = fill(
    UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        **small,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=12,
        attention_head_dim=4,
    )  # fmt: skip
)
out = conditioned(tensor(2, 4, 8, 8), torch.tensor([3, 70]), tensor(2, 5, 12)).sample
out.square().mean().backward()
report("conditioned", out, *(p.grad for p in list(conditioned.parameters())[:6]))

coder = fill(
    AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=4,
    )  # fmt: skip
)
latent = coder.encode(tensor(1, 3, 16, 16)).latent_dist
report("autoencoder", latent.mean, coder.decode(latent.mode()).sample, latent.kl())
coder.enable_tiling()
coder.enable_slicing()
report("sliced", coder.decode(latent.mode().repeat(2, 1, 1, 1)).sample)

transformer = fill(
    SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=12,
        caption_projection_dim=16,
        pooled_projection_dim=10,
        out_channels=4,
    )  # fmt: skip
)
out = transformer(tensor(1, 4, 8, 8), tensor(1, 3, 12), tensor(1, 10), torch.tensor([5])).sample
report("transformer", out)
