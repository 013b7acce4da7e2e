"""GPT-2 and Llama: logits against references, files, damaged files, generated text.

What is about the host's files and arguments alone is marked cpu_only.
"""

import json
import os
import random

import numpy as np
import pytest
from language_reference import (
    GPT2,
    LLAMA,
    LLAMA3_SCALING,
    numpy_logits,
    torch_logits,
    weights,
    write,
)

import pyflame as pf
from pyflame import models
from pyflame.models.decoding import choose

CASES = {
    "gpt2": (models.GPT2, GPT2),
    "gpt2-other": (
        models.GPT2,
        GPT2 | {
            "tie_word_embeddings": False, "scale_attn_by_inverse_layer_idx": True,
            "activation_function": "gelu", "n_inner": 100,
        },
    ),
    "gpt2-unscaled": (models.GPT2, GPT2 | {"scale_attn_weights": False}),
    "llama": (models.Llama, LLAMA),
    "llama3": (
        models.Llama,
        LLAMA | {"rope_scaling": LLAMA3_SCALING, "attention_bias": True, "mlp_bias": True},
    ),
    "llama-linear": (
        models.Llama,
        LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "tie_word_embeddings": True},
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """(class, configuration, values, folder)"""
    cls, config = CASES[request.param]
    values = weights(config)
    return cls, config, values, write(tmp_path / "model", config, values)


def tokens(rows=3, length=33, seed=1):
    return np.random.default_rng(seed).integers(0, 101, (rows, length))


def logits(model, given):
    with pf.no_grad():
        return model(pf.from_numpy(given).to(pf.get_device())).float().cpu().numpy()


# ---- logits -------------------------------------------------------------------------------------


def test_float32_logits(case):
    cls, config, values, folder = case
    got = logits(cls.from_pretrained(folder), tokens())
    assert np.abs(got - numpy_logits(config, values, tokens())).max() < 1e-4
    one = logits(cls.from_pretrained(folder), tokens(1, 1))
    assert np.abs(one - numpy_logits(config, values, tokens(1, 1))).max() < 1e-4


def test_float32_logits_as_pytorch(case):
    torch = pytest.importorskip("torch")
    cls, config, values, folder = case
    want = torch_logits(torch, config, values, tokens(), torch.float32).numpy()
    assert np.abs(logits(cls.from_pretrained(folder), tokens()) - want).max() < 1e-4


def test_bfloat16_logits(case):
    cls, config, values, folder = case
    want = numpy_logits(config, values, tokens())
    error = logits(cls.from_pretrained(folder, dtype=pf.bfloat16), tokens()) - want
    # With these weights logits are of the order of 1, and each is a sum of many rounded numbers.
    assert np.sqrt((error**2).mean() / (want**2).mean()) < 2e-2


def test_bfloat16_logits_of_start_values_as_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    for name, (cls, config) in CASES.items():
        values = {
            n: (v / 7.5 if v.ndim == 2 else v) for n, v in weights(config).items()
        }  # deviation 0.02, as GPT-2 begins
        folder = write(tmp_path / name, config, values)
        want = torch_logits(torch, config, values, tokens(), torch.bfloat16).numpy()
        got = logits(cls.from_pretrained(folder, dtype=pf.bfloat16), tokens())
        assert np.abs(got - want).max() < 2e-2, name


def test_gradients_as_pytorch(case):
    """The gradient of the loss by the table of tokens, through all layers."""
    torch = pytest.importorskip("torch")
    cls, config, values, folder = case
    given = tokens()
    model = cls.from_pretrained(folder).train()
    if cls is models.GPT2:
        model.train(False)  # its files say nothing of dropout, which then is 0.1
    x, y = (
        pf.from_numpy(t).to(pf.get_device()) for t in (given[:, :-1].copy(), given[:, 1:].copy())
    )
    loss = model(x, y)
    loss.backward()
    table = "transformer.wte.weight" if cls is models.GPT2 else "model.embed_tokens.weight"
    import language_reference as reference

    class Leaf:  # torch with one leaf among its tensors
        def __getattr__(self, name):
            return getattr(torch, name)

        def from_numpy(self, v):
            t = torch.from_numpy(v)
            if v is values[table]:
                leaves.append(t.requires_grad_())
            return t

    leaves = []
    out = reference.torch_logits(Leaf(), config, values, given[:, :-1].copy(), torch.float32)
    want = torch.nn.functional.cross_entropy(
        out.reshape(-1, 101), torch.from_numpy(given[:, 1:].copy()).reshape(-1)
    )
    want.backward()
    assert abs(loss.item() - want.item()) < 1e-5
    mine = model.get_parameter(model.tied_to).grad.cpu().numpy()
    assert np.abs(mine - leaves[0].grad.numpy()).max() < 1e-5


# ---- files --------------------------------------------------------------------------------------


def test_shards_and_names_without_prefix(case, tmp_path):
    cls, config, values, folder = case
    want = logits(cls.from_pretrained(folder), tokens())
    sharded = write(tmp_path / "shards", config, values, shards=5)
    assert np.array_equal(logits(cls.from_pretrained(sharded), tokens()), want)
    prefix = cls.prefix
    bare = {n.removeprefix(prefix): v for n, v in values.items()}
    if cls is models.GPT2:  # masks of old files
        bare["h.0.attn.bias"] = np.tril(np.ones((1, 1, 40, 40), np.uint8))
        bare["h.0.attn.masked_bias"] = np.float32(-1e4).reshape(())
    else:
        bare["layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(5, np.float32)
    folder = write(tmp_path / "bare", config, bare, shards=2)
    assert np.array_equal(logits(cls.from_pretrained(folder), tokens()), want)


@pytest.mark.parametrize("room", [10**9, 20_000, 1])
def test_saved_and_loaded(case, tmp_path, room):
    cls, config, values, folder = case
    model = cls.from_pretrained(folder)
    model.save_pretrained(tmp_path / "again", max_shard_bytes=room)
    files = sorted(os.listdir(tmp_path / "again"))
    assert ("model.safetensors.index.json" in files) == (room < 10**9)
    found = {}
    for file in files:
        if file.endswith(".safetensors"):
            found |= pf.safetensors.load_file(tmp_path / "again" / file)
    assert set(found) == set(values)
    for name, value in found.items():
        assert np.array_equal(value.numpy(), values[name]), name
    again = cls.from_pretrained(tmp_path / "again")
    assert np.array_equal(logits(again, tokens()), logits(model, tokens()))
    assert vars(again.config) == vars(model.config)
    # A smaller one over it: nothing of the larger is read.
    model.save_pretrained(tmp_path / "again", dtype=pf.bfloat16)
    assert not (tmp_path / "again" / "model.safetensors.index.json").exists()
    assert cls.from_pretrained(tmp_path / "again").lm_head.weight.dtype == pf.bfloat16


def test_pytorchs_library_reads_what_is_saved(case, tmp_path):
    """The format, by another reader: the safetensors package where it is there."""
    numpy_files = pytest.importorskip("safetensors.numpy")
    cls, config, values, folder = case
    cls.from_pretrained(folder).save_pretrained(tmp_path / "saved")
    found = numpy_files.load_file(tmp_path / "saved" / "model.safetensors")
    assert all(np.array_equal(found[n], v) for n, v in values.items())


def test_loaded_weights_are_ones_own(case):
    cls, config, values, folder = case
    model = cls.from_pretrained(folder)
    want = logits(model, tokens())
    with open(folder / "model.safetensors", "r+b") as f:
        f.seek(2000)
        f.write(b"\x7f" * 20000)
    assert np.array_equal(logits(model, tokens()), want)
    tied = config.get("tie_word_embeddings", True)
    assert (model.lm_head.weight is model.get_parameter(model.tied_to)) == tied


def test_state_of_nanogpt_loads():
    """Its names are the model's own; weights of linear layers are [outputs, inputs] there."""
    model = models.GPT2(vocab=64, layers=1, width=16, heads=2, context=8, bias=False)
    names = set(model.state_dict())
    assert names == {
        "transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight",
        "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
        "transformer.h.0.ln_2.weight", "transformer.h.0.mlp.c_fc.weight",
        "transformer.h.0.mlp.c_proj.weight", "transformer.ln_f.weight", "lm_head.weight",
    }  # fmt: skip
    assert tuple(model.transformer["h"][0].attn.c_attn.weight.shape) == (48, 16)
    with pytest.raises(pf.NotSupportedError, match="biases"):
        model.save_pretrained("nowhere")
    assert not os.path.exists("nowhere")


@pytest.mark.cpu_only
def test_presets_have_their_sizes():
    for name, millions in (
        ("gpt2", 124.4), ("gpt2-medium", 354.8), ("gpt2-large", 774.0), ("gpt2-xl", 1557.6),
    ):  # fmt: skip
        model = models.GPT2(models.GPT2Config.preset(name), device="meta")
        assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == millions
    with pytest.raises(pf.ValueError, match="gpt2-medium"):
        models.GPT2Config.preset("gpt3")


# ---- what is refused ------------------------------------------------------------------------------


def spoiled(folder, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    config = {k: v for k, v in config.items() if v != "gone"}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"vocab_size": "gone"}, pf.FileError, "vocab_size"),
        ({"vocab_size": 102}, pf.FileError, "wte.weight.*101, 48.*102, 48"),
        ({"n_layer": 4}, pf.FileError, "h.3.ln_1.weight"),
        ({"n_layer": 2}, pf.FileError, "nothing is known of 'transformer.h.2"),
        ({"n_layer": 10**9}, pf.FileError, "layers"),
        ({"n_layer": -1}, pf.FileError, "layers"),
        ({"n_layer": 2.5}, pf.FileError, "layers"),
        ({"n_layer": "x" * 10**5}, pf.FileError, "layers"),
        ({"n_embd": 10**30}, pf.FileError, "width"),
        ({"n_head": 5}, pf.FileError, "heads"),
        ({"n_head": 0}, pf.FileError, "heads"),
        ({"n_head": [4]}, pf.FileError, "heads"),
        ({"n_positions": 41}, pf.FileError, "wpe.weight"),
        ({"layer_norm_epsilon": "0"}, pf.FileError, "epsilon"),
        ({"layer_norm_epsilon": float("nan")}, pf.FileError, "epsilon"),
        ({"activation_function": "relu"}, pf.FileError, "activation"),
        ({"activation_function": ["gelu"]}, pf.FileError, "activation"),
        ({"tie_word_embeddings": False}, pf.FileError, "lm_head.weight"),
        ({"tie_word_embeddings": 1}, pf.FileError, "tied"),
        ({"add_cross_attention": True}, pf.NotSupportedError, "add_cross_attention"),
        ({"model_type": "gpt_neo"}, pf.NotSupportedError, "gpt_neo"),
        ({"model_type": ["x"]}, pf.NotSupportedError, "model_type"),
    ],
)  # fmt: skip
def test_configurations_that_do_not_fit(tmp_path, changes, error, words):
    folder = write(tmp_path / "m", GPT2, weights(GPT2))
    spoiled(folder, **changes)
    with pytest.raises(error, match=words) as caught:
        models.GPT2.from_pretrained(folder)
    assert len(str(caught.value)) < 1000


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"num_key_value_heads": 4}, pf.FileError, "heads"),
        ({"num_key_value_heads": 3}, pf.FileError, "k_proj"),
        ({"head_dim": 9}, pf.FileError, "even"),
        ({"hidden_act": "gelu"}, pf.NotSupportedError, "hidden_act"),
        ({"pretraining_tp": 2}, pf.NotSupportedError, "pretraining_tp"),
        ({"rope_scaling": {"type": "yarn"}}, pf.NotSupportedError, "yarn"),
        ({"rope_scaling": {"rope_type": "linear"}}, pf.FileError, "factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, pf.FileError, "factor"),
        ({"rope_scaling": LLAMA3_SCALING | {"low_freq_factor": 4.0}}, pf.FileError, "low_freq"),
        ({"rope_scaling": 3}, pf.FileError, "scaling"),
        ({"rope_theta": -1.0}, pf.FileError, "base"),
        ({"rope_parameters": 7, "rope_theta": "gone"}, pf.FileError, "config.json"),
    ],
)  # fmt: skip
def test_llamas_that_do_not_fit(tmp_path, changes, error, words):
    folder = write(tmp_path / "m", LLAMA, weights(LLAMA))
    spoiled(folder, **changes)
    with pytest.raises(error, match=words):
        models.Llama.from_pretrained(folder)


def test_later_files_have_positions_in_one_object(tmp_path):
    config = LLAMA | {"rope_scaling": LLAMA3_SCALING, "rope_theta": 500.0}
    values = weights(config)
    later = {k: v for k, v in config.items() if k not in ("rope_scaling", "rope_theta")}
    later["rope_parameters"] = LLAMA3_SCALING | {"rope_theta": 500.0}
    got = logits(models.Llama.from_pretrained(write(tmp_path / "m", later, values)), tokens())
    assert np.abs(got - numpy_logits(config, values, tokens())).max() < 1e-4


@pytest.mark.cpu_only
def test_folders_that_are_none(tmp_path):
    for path in ("absent", ""):
        with pytest.raises(pf.FileError):
            models.GPT2.from_pretrained(path)
    with pytest.raises(pf.ValueError, match="NUL"):
        models.GPT2.from_pretrained(tmp_path / "a\0b")
    with pytest.raises(TypeError):
        models.GPT2.from_pretrained(7)
    folder = tmp_path / "m"
    folder.mkdir()
    with pytest.raises(pf.FileError, match="config.json"):
        models.GPT2.from_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(GPT2))
    with pytest.raises(pf.FileError, match="model.safetensors"):
        models.GPT2.from_pretrained(folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(pf.FileError, match="pyflame convert"):
        models.GPT2.from_pretrained(folder)
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(pf.FileError):
        models.GPT2.from_pretrained(folder)
    for text in ("", "[]", "{", "\xff", "[" * 10**5):
        (folder / "config.json").write_text(text, encoding="latin-1")
        with pytest.raises(pf.FileError, match="config.json"):
            models.GPT2.from_pretrained(folder)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "place", ["../secret.safetensors", "/etc/passwd", "", ".", "..", "a\0b", 7, None, "absent"]
)
def test_indices_that_lead_elsewhere(tmp_path, place):
    folder = write(tmp_path / "m", GPT2, weights(GPT2), shards=2)
    pf.safetensors.save_file({"x": pf.ones(2)}, tmp_path / "secret.safetensors")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["transformer.wte.weight"] = place
    path.write_text(json.dumps(index))
    with pytest.raises(pf.FileError):
        models.GPT2.from_pretrained(folder)
    for bad in ({}, {"weight_map": []}, {"weight_map": {}}):
        path.write_text(json.dumps(bad))
        with pytest.raises(pf.FileError, match="weight_map"):
            models.GPT2.from_pretrained(folder)


@pytest.mark.cpu_only
def test_quantised_weights_are_refused(tmp_path):
    values = weights(GPT2)
    values["transformer.h.1.mlp.c_fc.weight"] = np.zeros((48, 192), np.int8)
    with pytest.raises(pf.NotSupportedError, match="int8"):
        models.GPT2.from_pretrained(write(tmp_path / "m", GPT2, values))


@pytest.mark.cpu_only
def test_damaged_folders(tmp_path):
    """Any damage to any file: the model, or a typed error."""
    dice = random.Random(3)
    for cls, config in ((models.GPT2, GPT2), (models.Llama, LLAMA)):
        folder = write(tmp_path / cls.__name__, config, weights(config), shards=2)
        files = sorted(folder.iterdir())
        loaded = refused = 0
        for _ in range(150):
            path = dice.choice(files)
            whole = path.read_bytes()
            bad = bytearray(whole)
            for _ in range(dice.randrange(1, 4)):
                at = dice.randrange(min(len(bad), 3000) + 1)
                how = dice.randrange(4)
                if how == 0 and at < len(bad):
                    bad[at] ^= 1 << dice.randrange(8)
                elif how == 1:
                    bad[at : at + dice.randrange(9)] = dice.choice(
                        [
                            b"",
                            b"{",
                            b"[" * 99,
                            b"null",
                            b"-1",
                            b"1e999",
                            b"9" * 30,
                            b'"',
                            b"\\ud800",
                        ]
                    )
                elif how == 2:
                    del bad[at : at + dice.randrange(40)]
                else:
                    del bad[at:]
            path.write_bytes(bad)
            try:
                cls.from_pretrained(folder)
                loaded += 1
            except (pf.FileError, pf.NotSupportedError):
                refused += 1
            path.write_bytes(whole)
        assert loaded and refused > 50


# ---- generating -----------------------------------------------------------------------------------


@pytest.fixture(params=["gpt2", "llama3", "llama-linear"])
def model(request, tmp_path):
    cls, config = CASES[request.param]
    return cls.from_pretrained(write(tmp_path / "model", config, weights(config, seed=4)))


PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15, 16], [17, 18]]
DRAWN = {"temperature": 0.9, "seed": 11}


@pytest.mark.parametrize(
    "how",
    [{"temperature": 0}, DRAWN, DRAWN | {"top_k": 7}, DRAWN | {"top_p": 0.8},
     DRAWN | {"top_k": 20, "top_p": 0.7}],
    ids=["greedy", "drawn", "top-k", "top-p", "both"],
)  # fmt: skip
def test_cached_compiled_and_batched_are_uncached(model, how):
    want = model.generate(PROMPTS, 25, use_cache=False, **how)
    assert [len(r) for r in want] == [len(p) + 25 for p in PROMPTS]
    assert len({tuple(r[-20:]) for r in want}) == 4
    assert model.generate(PROMPTS, 25, **how) == want
    decoder = model.decoder(4, 40)
    for _ in range(2):
        assert model.generate(PROMPTS, 25, decoder=decoder, **how) == want
    assert int(decoder.report().split()[0]) > 30  # calls replayed
    for i, prompt in enumerate(PROMPTS):
        alone = how | {"seed": how["seed"] + i} if "seed" in how else how
        assert model.generate([prompt], 25, **alone) == [want[i]]
    assert [list(s) for s in zip(*model.stream(PROMPTS, 25, **how))] == [r[-25:] for r in want]


def test_greedy_is_the_likeliest_of_the_reference(tmp_path):
    for name in ("gpt2", "llama3"):
        cls, config = CASES[name]
        values = weights(config, seed=4)
        model = cls.from_pretrained(write(tmp_path / name, config, values))
        row = list(PROMPTS[0])
        for _ in range(12):
            row.append(int(numpy_logits(config, values, np.array([row]))[0, -1].argmax()))
        assert model.generate([PROMPTS[0]], 12, temperature=0) == [row]


def test_padded_matrices(model):
    want = model.generate(PROMPTS, 9, temperature=0)
    for side in ("left", "right"):
        matrix = np.full((4, 8), 99)
        mask = np.zeros((4, 8), bool)
        for i, p in enumerate(PROMPTS):
            at = slice(8 - len(p), 8) if side == "left" else slice(0, len(p))
            matrix[i, at], mask[i, at] = p, True
        got = model.generate(
            pf.from_numpy(matrix), 9, temperature=0, attention_mask=pf.from_numpy(mask), pad=3
        )
        assert tuple(got.shape) == (4, 17)
        for row, r in zip(got.tolist(), want):
            assert row == [3] * (17 - len(r)) + r
    x = pf.tensor(PROMPTS[2:3])
    assert model.generate(x, 9, temperature=0).tolist() == want[2:3]


def test_texts_end(model):
    free = model.generate(PROMPTS, 25, temperature=0)
    new = [r[len(p) :] for r, p in zip(free, PROMPTS)]
    ends = (new[0][4], new[1][2])
    want = []
    for p, n in zip(PROMPTS, new):
        stop = next((i for i, t in enumerate(n) if t in ends), len(n) - 1)
        want.append(p + n[: stop + 1])
    assert len(want[0]) <= len(PROMPTS[0]) + 5
    for how in ({}, {"compile": True}, {"use_cache": False}):
        assert model.generate(PROMPTS, 25, temperature=0, eos=ends, **how) == want
    # As a matrix, rows are filled up; and it is no longer than its longest text.
    x = pf.tensor([PROMPTS[0], PROMPTS[0]])
    one = model.generate(x, 25, temperature=0, eos=ends[0], pad=2)
    assert one[0].tolist() == PROMPTS[0] + new[0][: new[0].index(ends[0]) + 1]
    streamed = list(model.stream([PROMPTS[0]], 25, temperature=0, eos=ends[0]))
    assert [t for (t,) in streamed] == new[0][: new[0].index(ends[0]) + 1]


def test_seeds(model):
    a = model.generate([[5, 6]] * 3, 12, seed=1)
    assert a == model.generate([[5, 6]] * 3, 12, seed=1)
    assert len({tuple(r) for r in a}) == 3
    assert a != model.generate([[5, 6]] * 3, 12, seed=2)
    assert a[::-1] == model.generate([[5, 6]] * 3, 12, seed=[3, 2, 1])
    pf.manual_seed(3)
    b = model.generate([[5, 6]], 12)
    assert b != model.generate([[5, 6]], 12)
    pf.manual_seed(3)
    assert b == model.generate([[5, 6]], 12)


def test_under_autocast(model):
    kind = pf.get_device().type
    with pf.autocast(kind, dtype=pf.bfloat16):
        want = model.generate(PROMPTS, 12, temperature=0, use_cache=False)
        assert model.generate(PROMPTS, 12, temperature=0) == want
        assert model.generate(PROMPTS, 12, temperature=0, compile=True) == want
        assert model.make_cache(1, 2).kept[0].dtype == pf.bfloat16
        kept = model.decoder(4, 30)
    wide = model.decoder(4, 30, compile=False)
    with pf.autocast(kind, dtype=pf.bfloat16):
        assert model.generate(PROMPTS, 12, temperature=0, decoder=wide) == want
        assert model.generate(PROMPTS, 12, temperature=0, decoder=kept) == want


def test_modes_are_put_back(model):
    model.train()
    steps = model.stream([[5, 6]], 5)
    next(steps)
    assert model.training and pf.is_grad_enabled()
    steps.close()
    model.generate([[1]], 2)
    assert model.training
    assert model.generate(pf.tensor([[1, 2]]), 0).tolist() == [[1, 2]]


def test_a_parameter_that_changes_between_texts(model):
    decoder = model.decoder(1, 20)
    for _ in range(3):
        got = model.generate([[5, 6]], 15, temperature=0, decoder=decoder)
        assert got == model.generate([[5, 6]], 15, temperature=0, use_cache=False)
        with pf.no_grad():
            model.lm_head.weight.copy_(model.lm_head.weight.flip(0))


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "given, error",
    [
        (([[1]], -1), pf.ValueError), (([[1]], 1.5), pf.ValueError), (([[1]], 60), pf.ValueError),
        (([[]], 1), pf.ValueError), (([], 1), pf.ValueError), (([[101]], 1), pf.IndexError),
        (([[-1]], 1), pf.IndexError), ((["x"], 1), TypeError), (([[True]], 1), TypeError),
    ],
)  # fmt: skip
def test_prompts_that_are_none(tmp_path, given, error):
    model = models.GPT2.from_pretrained(write(tmp_path / "m", GPT2, weights(GPT2)))
    for generate in (model.generate, lambda *a: list(model.stream(*a))):
        with pytest.raises(error):
            generate(*given)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "how",
    [
        {"temperature": -1}, {"temperature": float("nan")}, {"temperature": None}, {"top_k": 0},
        {"top_k": 1.5}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_p": float("nan")}, {"eos": 101},
        {"eos": -1}, {"pad": 500}, {"vocab": 0}, {"vocab": 102}, {"seed": "x"}, {"seed": [1, 2]},
        {"top_p": "x"}, {"seed": 1.5},
    ],
)  # fmt: skip
def test_choices_that_are_none(tmp_path, how):
    model = models.GPT2.from_pretrained(write(tmp_path / "m", GPT2, weights(GPT2)))
    with pytest.raises((pf.ValueError, TypeError)):
        model.generate([[1]], 1, **how)


def test_masks_and_decoders_that_do_not_fit(model):
    x = pf.tensor([[1, 2, 3]])
    for mask in ([[1, 0, 1]], [[0, 0, 0]]):
        with pytest.raises(pf.ValueError, match="mask"):
            model.generate(x, 1, attention_mask=pf.tensor(mask))
    with pytest.raises(pf.ShapeError):
        model.generate(x, 1, attention_mask=pf.ones(1, 2))
    with pytest.raises(pf.ValueError, match="decoder"):
        model.generate(x, 10, decoder=model.decoder(1, 12))
    with pytest.raises(pf.ValueError, match="decoder"):
        model.generate(x, 1, decoder=model.decoder(2, 12))
    with pytest.raises(pf.ShapeError):
        model.generate(pf.tensor([1, 2]), 1)
    with pytest.raises(pf.ShapeError):
        model(pf.zeros((1, 65), dtype=pf.int64))


def test_logits_that_are_nan(model):
    with pf.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    for how in (
        {"temperature": 0},
        {"seed": 1},
        {"seed": 1, "top_k": 3},
        {"seed": 1, "top_p": 0.5},
    ):
        with pytest.raises(pf.ValueError, match="NaN"):
            model.generate([[1]], 3, **how)
        with pytest.raises(pf.ValueError, match="NaN"):
            list(model.stream([[1]], 3, **how))


def test_a_nan_of_one_text_is_not_in_the_next(model):
    decoder = model.decoder(1, 30, compile=False)
    want = model.generate([[5, 6]], 5, temperature=0, decoder=decoder)
    for t in decoder.cache.kept:
        t.fill_(float("nan"))
    assert model.generate([[5, 6]], 5, temperature=0, decoder=decoder) == want


# ---- choosing ---------------------------------------------------------------------------------------


def kept(p, top_k, top_p):
    """What stays of probabilities, written once more."""
    order = np.argsort(-p, kind="stable")
    stay = order[: top_k or len(p)]
    q = np.zeros_like(p)
    q[stay] = p[stay] / p[stay].sum()
    if top_p is not None:
        before = np.cumsum(q[stay]) - q[stay]
        q[stay[before >= top_p]] = 0
    return q / q.sum()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("top_k, top_p", [(None, None), (5, None), (None, 0.6), (8, 0.7), (1, 0.1)])
def test_statistics_of_choices(temperature, top_k, top_p):
    rng = np.random.default_rng(5)
    x = rng.standard_normal(40) * 2
    p = np.exp(x / temperature - (x / temperature).max())
    want = kept(p / p.sum(), top_k, top_p)
    n = 40_000
    numbers = (np.arange(n) + 0.5) / n  # evenly: each token gets its share
    rows = pf.from_numpy(x.astype(np.float32)).unsqueeze(0).expand(n, 40)
    got = choose(rows, pf.from_numpy(numbers.astype(np.float32)), temperature, top_k, top_p)
    counts = np.bincount(got.cpu().numpy(), minlength=40) / n
    assert np.abs(counts - want).max() < 2e-4
    assert (counts[want == 0] == 0).all()
    drawn = choose(rows, pf.rand(n), temperature, top_k, top_p).cpu().numpy()
    spread = np.bincount(drawn, minlength=40) / n - want
    # Each count is binomial: six standard deviations.
    assert (np.abs(spread) <= 6 * np.sqrt(want * (1 - want) / n) + 1e-9).all()


def test_choices_at_the_ends():
    x = pf.tensor([[0.0, float("-inf"), 0.0, float("-inf")]])
    last = 1 - 2**-24
    for number, want in ((0.0, 0), (0.4999, 0), (0.5, 2), (last, 2)):
        assert choose(x, pf.tensor([number])).tolist() == [want]
    big = pf.tensor([[1e4, 0.0, -1e4], [3e38, -3e38, 3e38], [-1e4, -1e4, -1e4]])
    assert choose(big, pf.tensor([0.999, 0.7, 0.1])).tolist() == [0, 2, 0]
    assert choose(big, None, 0).tolist() == [0, 0, 0]
    assert choose(big.bfloat16(), pf.tensor([0.999, 0.7, 0.1]), 1e-3).tolist() == [0, 2, 0]
    for bad in (float("nan"), float("inf")):
        x = pf.tensor([[0.0, bad, 1.0]])
        assert choose(x, pf.tensor([0.5])).tolist() == [-1]
    nan = pf.tensor([[0.0, float("nan"), 1.0]])
    assert choose(nan, None, 0).tolist() == [-1]
    for n in (1, 2, 50304):
        one = pf.zeros((1, n))
        assert choose(one, pf.tensor([last])).tolist()[0] < n
