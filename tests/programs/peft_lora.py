"""peft: adapters of several kinds on a small Qwen model, trained, merged, saved and loaded again."""

import tempfile

import numpy as np
import torch
from made_up import fill, report
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoHaConfig,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
)
from torch.optim import AdamW
from transformers import AutoModelForCausalLM, Qwen2Config, get_linear_schedule_with_warmup

config = Qwen2Config(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.0,
)  # fmt: skip
rng = np.random.RandomState(0)
rows = torch.tensor(rng.randint(0, 64, (6, 4, 12)))
rows[:, :, 1::2] = (rows[:, :, ::2] * 5 + 2) % 64
targets = ["q_proj", "v_proj"]
kinds = {
    "lora": LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
    ),
    "dora": LoraConfig(r=4, use_dora=True, target_modules="all-linear", task_type="CAUSAL_LM"),
    "rslora": LoraConfig(
        r=4,
        use_rslora=True,
        target_modules=targets,
        modules_to_save=["lm_head"],
        task_type="CAUSAL_LM",
    ),
    "adalora": AdaLoraConfig(
        init_r=4,
        target_r=2,
        tinit=1,
        tfinal=1,
        deltaT=1,
        total_step=6,
        target_modules=targets,
        task_type="CAUSAL_LM",
    ),
    "loha": LoHaConfig(r=4, target_modules=targets, task_type="CAUSAL_LM"),
    "ia3": IA3Config(
        target_modules=["k_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        task_type="CAUSAL_LM",
    ),
    "prompt": PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "prefix": PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
}


def base():
    return fill(AutoModelForCausalLM.from_config(config), scale=0.1)


for name, kind in kinds.items():
    model = get_peft_model(base(), kind)
    trained = [p for p in model.parameters() if p.requires_grad]
    rng = np.random.RandomState(1)
    with torch.no_grad():
        for p in trained:  # adapters draw their own
            p.copy_(torch.tensor(rng.randn(*p.shape) * 0.1))
    if name == "lora":
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    optimizer = AdamW(trained, lr=1e-2)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 6)
    losses = []
    for step, ids in enumerate(rows):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        if name == "adalora":
            model.base_model.update_and_allocate(step + 1)
        optimizer.zero_grad()
    report(name, torch.tensor(losses), *trained)
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=rows[0]).logits
        report(f"{name} logits", logits)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = PeftModel.from_pretrained(base(), folder).eval()
            torch.testing.assert_close(
                again(input_ids=rows[0]).logits, logits, atol=1e-5, rtol=1e-4
            )
        if name in ("lora", "dora", "rslora", "loha", "ia3"):
            with model.disable_adapter():
                report(f"{name} off", model(input_ids=rows[0]).logits)
            merged = model.merge_and_unload()
            torch.testing.assert_close(
                merged(input_ids=rows[0]).logits, logits, atol=1e-4, rtol=1e-3
            )
