"""transformers' generate: tokens of small Llama, Mistral, Qwen, Gemma and T5 models, greedy, by beams, with
penalties, caches of several kinds, an assistant, and in batches that are padded."""

import torch
from made_up import fill, report
from transformers import (
    AutoModelForCausalLM,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    T5Config,
    T5ForConditionalGeneration,
)

small = dict(
    vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
prompt = torch.tensor([[0, 0, 5, 6, 7], [3, 4, 5, 6, 7]])
mask = (prompt > 0).long()
for config in (
    LlamaConfig(**small),
    MistralConfig(**small, sliding_window=8),
    Qwen2Config(**small),
    GemmaConfig(**small, head_dim=8),
):
    model = fill(AutoModelForCausalLM.from_config(config), scale=0.3).eval()
    name = config.model_type
    report(f"{name} logits", model(prompt, attention_mask=mask).logits)
    ways = {
        "greedy": {},
        "beams": dict(num_beams=3, num_return_sequences=2, length_penalty=0.8, early_stopping=True),
        "penalty": dict(repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=5),
        "static": dict(cache_implementation="static"),
        "uncached": dict(use_cache=False),
    }
    for way, how in ways.items():
        out = model.generate(prompt, attention_mask=mask, max_new_tokens=12, do_sample=False, **how)
        report(f"{name} {way}", out)
    scored = model.generate(
        prompt,
        attention_mask=mask,
        max_new_tokens=4,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
    )
    report(f"{name} scores", *scored.scores)

llama = LlamaConfig(**small)
model = fill(AutoModelForCausalLM.from_config(llama), scale=0.3).eval()
helper = fill(AutoModelForCausalLM.from_config(llama), seed=1, scale=0.3).eval()
one = prompt[1:]
report("assisted", model.generate(one, max_new_tokens=12, do_sample=False, assistant_model=helper))
report(
    "looked up", model.generate(one, max_new_tokens=12, do_sample=False, prompt_lookup_num_tokens=3)
)
one_sure = model.generate(one, max_new_tokens=12, do_sample=True, top_k=1, temperature=0.7)
report("sampled of one", one_sure)
model.forward = torch.compile(model.forward, mode="reduce-overhead")
report(
    "compiled",
    model.generate(
        prompt,
        attention_mask=mask,
        max_new_tokens=12,
        do_sample=False,
        cache_implementation="static",
    ),
)

t5 = T5Config(
    vocab_size=99,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    dropout_rate=0.0,
    decoder_start_token_id=0,
)
model = fill(T5ForConditionalGeneration(t5), scale=0.3).eval()
report("t5 greedy", model.generate(prompt, attention_mask=mask, max_new_tokens=9, do_sample=False))
report(
    "t5 beams",
    model.generate(prompt, attention_mask=mask, max_new_tokens=9, do_sample=False, num_beams=4),
)
report("t5 loss", model(input_ids=prompt, labels=prompt).loss)
