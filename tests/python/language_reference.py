"""GPT-2 and Llama written once more, from the layout of Hugging Face's files: in NumPy in float64, and in
PyTorch's API; with random weights in that layout."""

import json
import math

import numpy as np

import pyflame as pf

GPT2 = {
    "model_type": "gpt2", "vocab_size": 101, "n_layer": 3, "n_embd": 48, "n_head": 4,
    "n_positions": 40, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "vocab_size": 101, "num_hidden_layers": 3, "hidden_size": 48,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 88,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
LLAMA3_SCALING = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip


def shapes(config):
    """{name: shape} of the files' weights."""
    if config["model_type"] == "gpt2":
        c, vocab = config["n_embd"], config["vocab_size"]
        inner = config.get("n_inner") or 4 * c
        found = {"transformer.wte.weight": (vocab, c)}
        found["transformer.wpe.weight"] = (config["n_positions"], c)
        for i in range(config["n_layer"]):
            h = f"transformer.h.{i}."
            for name, a, b in (
                ("attn.c_attn", c, 3 * c), ("attn.c_proj", c, c), ("mlp.c_fc", c, inner),
                ("mlp.c_proj", inner, c),
            ):  # fmt: skip
                found |= {f"{h}{name}.weight": (a, b), f"{h}{name}.bias": (b,)}
            for name in ("ln_1", "ln_2"):
                found |= {f"{h}{name}.weight": (c,), f"{h}{name}.bias": (c,)}
        found |= {"transformer.ln_f.weight": (c,), "transformer.ln_f.bias": (c,)}
        if not config.get("tie_word_embeddings", True):
            found["lm_head.weight"] = (vocab, c)
        return found
    c, vocab, size = config["hidden_size"], config["vocab_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    inner = config["intermediate_size"]
    found = {"model.embed_tokens.weight": (vocab, c)}
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        for name, a, b, bias in (
            ("self_attn.q_proj", q, c, "attention_bias"), ("self_attn.k_proj", kv, c, "attention_bias"),
            ("self_attn.v_proj", kv, c, "attention_bias"), ("self_attn.o_proj", c, q, "attention_bias"),
            ("mlp.gate_proj", inner, c, "mlp_bias"), ("mlp.up_proj", inner, c, "mlp_bias"),
            ("mlp.down_proj", c, inner, "mlp_bias"),
        ):  # fmt: skip
            found[f"{h}{name}.weight"] = (a, b)
            if config[bias]:
                found[f"{h}{name}.bias"] = (a,)
        found[f"{h}input_layernorm.weight"] = found[f"{h}post_attention_layernorm.weight"] = (c,)
    found["model.norm.weight"] = (c,)
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (vocab, c)
    return found


def weights(config, seed=0):
    """Random ones: float32 arrays; logits are of the order of 1."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes(config).items():
        if len(shape) == 1:
            base = 1.0 if "ln_" in name or "norm" in name else 0.0
            made[name] = (
                base * (not name.endswith("bias")) + 0.2 * rng.standard_normal(shape)
            ).astype(np.float32)
        else:
            made[name] = (0.15 * rng.standard_normal(shape)).astype(np.float32)
    return made


def write(folder, config, values, shards=1):
    """A folder as Hugging Face's programs write it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = list(values)
    if shards == 1:
        tensors = {n: pf.from_numpy(values[n]) for n in names}
        pf.safetensors.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    places = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: pf.from_numpy(values[n]) for n in names[i::shards]}
        pf.safetensors.save_file(part, folder / file, {"format": "pt"})
        places |= dict.fromkeys(part, file)
    index = {
        "metadata": {"total_size": sum(v.nbytes for v in values.values())},
        "weight_map": places,
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def rates(config):
    """By how much pairs turn, as the paper and Llama 3's own code say."""
    size = config["head_dim"]
    found = 1.0 / config["rope_theta"] ** (np.arange(0, size, 2) / size)
    scaling = config.get("rope_scaling")
    if not scaling:
        return found
    if scaling["rope_type"] == "linear":
        return found / scaling["factor"]
    old = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    made = []
    for rate in found:
        wave = 2 * math.pi / rate
        if wave < old / high:
            made.append(rate)
        elif wave > old / low:
            made.append(rate / scaling["factor"])
        else:
            smooth = (old / wave - low) / (high - low)
            made.append((1 - smooth) * rate / scaling["factor"] + smooth * rate)
    return np.array(made)


# ---- NumPy, float64 ------------------------------------------------------------------------------


def _softmax_attention(q, k, v, scale):
    """[B, H, L, D] each; causal."""
    scores = np.einsum("bhld,bhsd->bhls", q, k) * scale
    length = q.shape[2]
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = np.einsum("bhls,bhsd->bhld", p, v)
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], length, -1)


def _gelu(x, kind):
    if kind == "gelu":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def numpy_logits(config, values, tokens):
    w = {n: v.astype(np.float64) for n, v in values.items()}
    batch, length = tokens.shape
    if config["model_type"] == "gpt2":
        heads, c = config["n_head"], config["n_embd"]

        def norm(x, name):
            mean = x.mean(-1, keepdims=True)
            var = x.var(-1, keepdims=True)
            x = (x - mean) / np.sqrt(var + config["layer_norm_epsilon"])
            return x * w[f"{name}.weight"] + w[f"{name}.bias"]

        def conv1d(x, name):
            return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

        x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:length]
        for i in range(config["n_layer"]):
            h = f"transformer.h.{i}."
            qkv = conv1d(norm(x, h + "ln_1"), h + "attn.c_attn")
            q, k, v = (
                t.reshape(batch, length, heads, c // heads).transpose(0, 2, 1, 3)
                for t in np.split(qkv, 3, -1)
            )
            scale = (c // heads) ** -0.5 if config.get("scale_attn_weights", True) else 1.0
            if config.get("scale_attn_by_inverse_layer_idx"):
                scale /= i + 1
            x = x + conv1d(_softmax_attention(q, k, v, scale), h + "attn.c_proj")
            up = _gelu(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc"), config["activation_function"])
            x = x + conv1d(up, h + "mlp.c_proj")
        head = w.get("lm_head.weight", w["transformer.wte.weight"])
        return norm(x, "transformer.ln_f") @ head.T

    heads, kept, size = (
        config[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    angles = np.arange(length)[:, None] * np.concatenate([rates(config)] * 2)
    cos, sin = np.cos(angles), np.sin(angles)

    def norm(x, name):
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"])
        return x * w[f"{name}.weight"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    def split(x, n):
        return x.reshape(batch, length, n, size).transpose(0, 2, 1, 3)

    def turn(x):
        half = np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], -1)
        return x * cos + half * sin

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        y = norm(x, h + "input_layernorm")
        q = turn(split(linear(y, h + "self_attn.q_proj"), heads))
        k = turn(split(linear(y, h + "self_attn.k_proj"), kept)).repeat(heads // kept, 1)
        v = split(linear(y, h + "self_attn.v_proj"), kept).repeat(heads // kept, 1)
        x = x + linear(_softmax_attention(q, k, v, size**-0.5), h + "self_attn.o_proj")
        y = norm(x, h + "post_attention_layernorm")
        gate = linear(y, h + "mlp.gate_proj")
        up = gate / (1 + np.exp(-gate)) * linear(y, h + "mlp.up_proj")
        x = x + linear(up, h + "mlp.down_proj")
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return norm(x, "model.norm") @ head.T


# ---- PyTorch's API ---------------------------------------------------------------------------------


def torch_logits(torch, config, values, tokens, dtype):
    """Logits as float32, computed in `dtype` with torch's own operations."""
    F = torch.nn.functional
    w = {n: torch.from_numpy(v).to(dtype) for n, v in values.items()}
    tokens = torch.from_numpy(tokens)
    batch, length = tokens.shape
    if config["model_type"] == "gpt2":
        heads, c = config["n_head"], config["n_embd"]
        gelu = "none" if config["activation_function"] == "gelu" else "tanh"

        def norm(x, name):
            return F.layer_norm(
                x, (c,), w[f"{name}.weight"], w[f"{name}.bias"], config["layer_norm_epsilon"]
            )

        def conv1d(x, name):
            return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

        x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:length]
        for i in range(config["n_layer"]):
            h = f"transformer.h.{i}."
            qkv = conv1d(norm(x, h + "ln_1"), h + "attn.c_attn")
            q, k, v = (
                t.view(batch, length, heads, c // heads).transpose(1, 2)
                for t in qkv.split(c, dim=-1)
            )
            scale = (c // heads) ** -0.5 if config.get("scale_attn_weights", True) else 1.0
            if config.get("scale_attn_by_inverse_layer_idx"):
                scale /= i + 1
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
            x = x + conv1d(y.transpose(1, 2).reshape(batch, length, c), h + "attn.c_proj")
            up = F.gelu(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate=gelu)
            x = x + conv1d(up, h + "mlp.c_proj")
        head = w.get("lm_head.weight", w["transformer.wte.weight"])
        return F.linear(norm(x, "transformer.ln_f"), head).float()

    heads, kept, size = (
        config[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    angles = torch.outer(torch.arange(length).float(), torch.from_numpy(rates(config)).float())
    angles = torch.cat([angles, angles], -1)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def norm(x, name):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + config["rms_norm_eps"])
        return w[f"{name}.weight"] * y.to(dtype)

    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    def split(x, n):
        return x.view(batch, length, n, size).transpose(1, 2)

    def turn(x):
        return x * cos + torch.cat([-x[..., size // 2 :], x[..., : size // 2]], -1) * sin

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        y = norm(x, h + "input_layernorm")
        q = turn(split(linear(y, h + "self_attn.q_proj"), heads))
        k = turn(split(linear(y, h + "self_attn.k_proj"), kept)).repeat_interleave(heads // kept, 1)
        v = split(linear(y, h + "self_attn.v_proj"), kept).repeat_interleave(heads // kept, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(batch, length, -1), h + "self_attn.o_proj")
        y = norm(x, h + "post_attention_layernorm")
        up = F.silu(linear(y, h + "mlp.gate_proj")) * linear(y, h + "mlp.up_proj")
        x = x + linear(up, h + "mlp.down_proj")
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return F.linear(norm(x, "model.norm"), head).float()
