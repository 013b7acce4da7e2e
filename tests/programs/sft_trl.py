"""trl: SFTTrainer and DPOTrainer over a made-up language with a tokenizer that is made here, with
packing, LoRA adapters and completions only."""

import tempfile

import numpy as np
import torch
from datasets import Dataset
from made_up import fill, report
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

words = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghij"]
tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    pad_token="<pad>",
    bos_token="<s>",
    eos_token="</s>",
    unk_token="<unk>",
)
rng = np.random.RandomState(0)


def text(n):
    letters = rng.randint(0, 9, n)
    return " ".join("abcdefghij"[v] + " " + "abcdefghij"[v + 1] for v in letters)


def model():
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return fill(LlamaForCausalLM(config), scale=0.1)


class Losses(TrainerCallback):
    def __init__(self, name):
        self.name = name

    def on_log(self, args, state, control, logs=None, **others):
        if "loss" in logs:
            kept = [
                v
                for k, v in sorted(logs.items())
                if k in ("loss", "grad_norm", "mean_token_accuracy", "entropy")
                or k.startswith("rewards/")
            ]
            report(f"{self.name} {state.global_step}", torch.tensor(kept, dtype=torch.float64))


common = dict(
    per_device_train_batch_size=4, max_steps=5, learning_rate=3e-3, logging_steps=1, report_to=[], disable_tqdm=True,
    save_strategy="no", train_sampling_strategy="sequential", use_cpu=not torch.cuda.is_available(), bf16=False,
    gradient_checkpointing=False,
)  # fmt: skip
texts = Dataset.from_dict({"text": [text(rng.randint(2, 9)) for _ in range(24)]})
pairs = Dataset.from_dict(
    {"prompt": [text(2) for _ in range(24)], "completion": [" " + text(3) for _ in range(24)]}
)
for name, data, how in (
    ("text", texts, {}),
    ("packed", texts, dict(packing=True, max_length=16)),
    ("completions", pairs, {}),
    ("checkpointing", texts, dict(gradient_checkpointing=True)),
):
    with tempfile.TemporaryDirectory() as folder:
        SFTTrainer(
            model(), args=SFTConfig(folder, **(common | how)), train_dataset=data, processing_class=tokenizer,
            callbacks=[Losses(name)],
        ).train()  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    lora = SFTTrainer(
        model(), args=SFTConfig(folder, **common), train_dataset=texts, processing_class=tokenizer,
        peft_config=LoraConfig(r=4, lora_dropout=0.0, target_modules=["q_proj", "v_proj"]), callbacks=[Losses("lora")],
    )  # fmt: skip
    for n, p in lora.model.named_parameters():
        if "lora_A" in n:
            p.data.copy_(torch.tensor(np.random.RandomState(2).randn(*p.shape) * 0.1))
    lora.train()
choices = Dataset.from_dict(
    {k: [text(2) for _ in range(24)] for k in ("prompt", "chosen", "rejected")}
)
with tempfile.TemporaryDirectory() as folder:
    DPOTrainer(
        model(), ref_model=model(), args=DPOConfig(folder, **common), train_dataset=choices,
        processing_class=tokenizer, callbacks=[Losses("dpo")],
    ).train()  # fmt: skip
