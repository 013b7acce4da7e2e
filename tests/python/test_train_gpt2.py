"""`pyflame train gpt --preset`, `pyflame data tokenize` and what `pyflame generate` makes of both.

What is about the host's files and arguments alone is marked cpu_only.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest
from hangs import HANG

import pyflame as pf
from pyflame import cli, datasets, models
from pyflame.compiler import captured
from pyflame.training import config as configs
from pyflame.training import language, peak, token_files, tokenizers
from pyflame.training import text as texts

SIZES = (
    "--preset gpt2 --layers 2 --width 32 --heads 2 --context 32 --batch 4 --sample 12 --threads 1"
)
SMALL = [*SIZES.split(), "--tokenizer", "bytes", "--lr", "0.003", "--eval-tokens", "2000"]
ENV = dict(
    os.environ,
    PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.dirname(pf.__file__)), *sys.path]),
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"line {i}: the square of {i} is {i * i}\n" for i in range(2000)))
    return path


def pyflame(capsys, *args, status=0):
    """(standard output, standard error) of the command, in this process."""
    found = cli.main([str(a) for a in args])
    out, err = capsys.readouterr()
    assert found == status, out + err
    return out, err


def log(run):
    with open(run / "log.jsonl") as f:
        return [json.loads(line) for line in f]


def held_out(out):
    return float(re.search(r"held-out: (\d+\.\d+) nats per token", out)[1])


# ---- files of tokens ------------------------------------------------------------------------------


@pytest.mark.cpu_only
def test_tokenized_text_is_numbers_alone(capsys, text, tmp_path):
    out, _ = pyflame(
        capsys, "data", "tokenize", text, "--out", tmp_path / "t", "--tokenizer", "bytes"
    )
    assert "tokens to learn from" in out and "uint16" in out
    whole = text.read_bytes()
    train, val = (np.fromfile(tmp_path / "t" / n, "<u2") for n in ("train.bin", "val.bin"))
    assert train[-1] == val[-1] == 256  # where a text ends
    assert bytes(train[:-1].astype(np.uint8)) + bytes(val[:-1].astype(np.uint8)) == whole
    assert len(val) == pytest.approx(len(whole) / 20, abs=60)
    assert train[-2] == ord("\n")  # no line is cut
    about = json.loads((tmp_path / "t" / "tokens.json").read_text())
    assert about["train_tokens"] == len(train) and about["bytes"] == len(whole)
    assert sorted(os.listdir(tmp_path / "t")) == ["tokens.json", "train.bin", "val.bin"]
    data = datasets.Tokens(tmp_path / "t" / "train.bin", 16, vocab=257)
    assert data[0][0].tolist() == list(whole[:16])
    again = token_files.make(text, tmp_path / "again", tokenizers.Bytes())
    assert again == about
    assert (tmp_path / "again" / "train.bin").read_bytes() == train.tobytes()


@pytest.mark.cpu_only
def test_pieces_of_long_texts_are_put_together(text, tmp_path, monkeypatch):
    token_files.make(text, tmp_path / "whole", tokenizers.Bytes())
    monkeypatch.setattr(token_files, "_PIECE", 1000)
    token_files.make(text, tmp_path / "pieces", tokenizers.Bytes())
    for name in ("train.bin", "val.bin"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "pieces" / name).read_bytes()


@pytest.mark.cpu_only
def test_folders_are_held_out_by_name(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(60):
        (folder / f"{i}.txt").write_text(f"text number {i}\n")
    (folder / "picture").write_bytes(b"\0\1")
    notes = []
    token_files.make(folder, tmp_path / "t", tokenizers.Bytes(), notes=notes)
    assert notes == ["left out 1 files that hold no text, such as picture"]
    parts = {}
    for part in ("train", "val"):
        tokens = np.fromfile(tmp_path / "t" / f"{part}.bin", "<u2")
        ends = np.flatnonzero(tokens == 256)
        parts[part] = [bytes(d[d < 256].astype(np.uint8)) for d in np.split(tokens, ends + 1)[:-1]]
    held = {f"text number {i}\n".encode() for i in range(60) if texts.is_held_out(f"{i}.txt")}
    assert set(parts["val"]) == held and len(held) > 0
    assert len(parts["train"]) == 60 - len(held)
    # Of few files the end of each.
    few = tmp_path / "few"
    few.mkdir()
    (few / "a").write_text("word\n" * 100)
    (few / "b").write_text("other\n" * 100)
    about = token_files.make(few, tmp_path / "f", tokenizers.Bytes())
    assert about["held_out_tokens"] > 20 and about["bytes"] == 1100


@pytest.mark.cpu_only
def test_dtypes_of_tokens(capsys, text, tmp_path):
    for dtype in ("uint16", "uint32", "int32", "int64"):
        token_files.make(text, tmp_path / dtype, tokenizers.Bytes(), dtype)
        data = token_files.TokenData(str(tmp_path / dtype), 16)
        assert data.dtype == dtype
        assert data.train.windows([0])[0].tolist() == list(text.read_bytes()[:17])
    _, err = pyflame(
        capsys, "data", "tokenize", text, "--out", tmp_path / "x", "--tokenizer", "bytes",
        "--dtype", "uint8", status=1,
    )  # fmt: skip
    assert "257 tokens do not fit into uint8" in err
    assert not (tmp_path / "x").exists()


@pytest.mark.cpu_only
@pytest.mark.parametrize("content", [b"", b"abc"])
def test_texts_that_are_too_short(capsys, content, tmp_path):
    (tmp_path / "t").write_bytes(content)
    _, err = pyflame(
        capsys, "data", "tokenize", tmp_path / "t", "--out", tmp_path / "o", "--tokenizer", "bytes",
        status=1,
    )  # fmt: skip
    assert "too short" in err
    assert os.listdir(tmp_path / "o") == []


@pytest.mark.cpu_only
def test_paths_that_lead_nowhere(capsys, tmp_path, text):
    os.mkfifo(tmp_path / "fifo")
    for path in ("absent", tmp_path / "fifo", "/dev/null/x", "a\0b"):
        args = ("data", "tokenize", path, "--out", tmp_path / "o", "--tokenizer", "bytes")
        _, err = pyflame(capsys, *args, status=1)
        assert err.count("\n") == 1 and "unexpected" not in err
    for out in ("/dev/null/x", text):
        _, err = pyflame(
            capsys, "data", "tokenize", text, "--out", out, "--tokenizer", "bytes", status=1
        )
        assert err.count("\n") == 1 and "unexpected" not in err


@pytest.mark.cpu_only
def test_a_full_disk_leaves_what_was_there(text, tmp_path, monkeypatch):
    token_files.make(text, tmp_path / "t", tokenizers.Bytes())
    before = {p.name: p.read_bytes() for p in (tmp_path / "t").iterdir()}
    add = token_files._Writer.add

    def full(self, tokens):
        if self.count:
            raise OSError(28, "No space left on device")
        return add(self, tokens)

    monkeypatch.setattr(token_files._Writer, "add", full)
    monkeypatch.setattr(token_files, "_PIECE", 1000)
    with pytest.raises(pf.FileError, match="No space left"):
        token_files.make(text, tmp_path / "t", tokenizers.Bytes())
    assert {p.name: p.read_bytes() for p in (tmp_path / "t").iterdir()} == before


@pytest.mark.cpu_only
def test_damaged_descriptions_of_tokens(text, tmp_path):
    token_files.make(text, tmp_path / "t", tokenizers.Bytes())
    path = tmp_path / "t" / "tokens.json"
    good = json.loads(path.read_text())
    for bad in (
        "", "[]", "{", json.dumps(good | {"dtype": "float32"}), json.dumps(good | {"vocab": -1}),
        json.dumps(good | {"vocab": "x"}), json.dumps(good | {"tokenizer": 3}),
    ):  # fmt: skip
        path.write_text(bad)
        with pytest.raises(pf.FileError, match="tokens.json"):
            token_files.TokenData(str(tmp_path / "t"), 16)


# ---- tokenizers -----------------------------------------------------------------------------------


class Pairs:
    """An encoding as tiktoken has them: a token for each pair of letters a and b, else bytes."""

    n_vocab, eot_token = 300, 299

    def encode_ordinary(self, text):
        return [
            256 if p == "ab" else b for p in re.findall("ab|.", text, re.S) for b in p.encode()[:1]
        ]

    def decode_bytes(self, tokens):
        return b"".join(b"ab" if t == 256 else bytes([t]) for t in tokens if t < 257)


@pytest.mark.cpu_only
def test_tiktoken_is_taken_where_it_is(monkeypatch):
    asked = []
    fake = types.ModuleType("tiktoken")
    fake.get_encoding = lambda name: asked.append(name) or Pairs()
    monkeypatch.setitem(sys.modules, "tiktoken", fake)
    how, note = tokenizers.tokenizer()
    assert (how.name, how.vocab, how.end, note, asked) == ("gpt2", 300, 299, None, ["gpt2"])
    assert how.encode(b"xaby") == [120, 256, 121] and how.decode([120, 256, 121, 350]) == "xaby"

    def fails(name):
        raise ValueError("no network\nat all")

    fake.get_encoding = fails
    how, note = tokenizers.tokenizer("auto")
    assert how.name == "bytes" and "a token is a byte" in note and "ValueError" in note
    with pytest.raises(pf.ValueError, match="r50k"):
        tokenizers.tokenizer("r50k")
    monkeypatch.setitem(sys.modules, "tiktoken", None)  # as if it were not installed
    how, note = tokenizers.tokenizer("auto")
    assert how.name == "bytes" and "pip install tiktoken" in note
    with pytest.raises(pf.NotSupportedError, match="tiktoken"):
        tokenizers.tokenizer("gpt2")


@pytest.mark.cpu_only
def test_a_tokenizer_of_a_file(tmp_path):
    package = pytest.importorskip("tokenizers")
    how = package.Tokenizer(package.models.BPE())
    how.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    how.decoder = package.decoders.ByteLevel()
    trainer = package.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    how.train_from_iterator(["the square of the square is the square"] * 9, trainer)
    how.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        found, note = tokenizers.tokenizer(str(path))
        assert note is None and found.vocab == how.get_vocab_size() and found.end == 0
        text = "the square é <|endoftext|>"
        assert found.decode(found.encode(text.encode())) == text.replace("<|endoftext|>", "")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(pf.FileError, match="no tokenizer"):
        tokenizers.tokenizer(str(tmp_path))


@pytest.mark.cpu_only
def test_what_is_no_tokenizer(tmp_path):
    for name in ("absent.json", str(tmp_path), "/dev/zero", "a/b"):
        with pytest.raises((pf.FileError, pf.NotSupportedError)):
            tokenizers.tokenizer(name)


@pytest.mark.cpu_only
def test_letters_of_several_bytes_are_written_whole():
    show = tokenizers.Bytes().stream()
    assert [show(b) for b in "aé€".encode()] == ["a", "", "é", "", "", "€"]
    bad = [show(b) for b in b"\xff" * 9]
    assert "\N{REPLACEMENT CHARACTER}" in "".join(bad)


# ---- training -------------------------------------------------------------------------------------


def test_training_learns_and_generates(capsys, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, err = pyflame(capsys, "train", "gpt", *SMALL, "--data", text, "--steps", 120,
                       "--eval-interval", 50, "--out", "run")  # fmt: skip
    assert held_out(out) < 3.6 and "sample:" in out and "peak:" in out
    assert re.search(r"loss \d+\.\d+, [\d.]+k? tokens/s, [\d.]+% of peak", err)
    entries = log(tmp_path / "run")
    assert [e["step"] for e in entries if "loss" in e] == list(range(10, 121, 10))
    looks = [e for e in entries if "held_out_loss" in e]
    assert [e["step"] for e in looks] == [50, 100]
    assert looks[1]["held_out_loss"] < looks[0]["held_out_loss"]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["held_out_loss"] == pytest.approx(held_out(out), abs=1e-3)
    say = ["generate", "--run", "run", "--prompt", "line", "--tokens", 20, "--threads", 1]
    out, _ = pyflame(capsys, *say)
    assert out.startswith("line") and len(out) > 10
    assert pyflame(capsys, *say)[0] == out
    assert pyflame(capsys, *say, "--compile")[0] == out
    likeliest = pyflame(capsys, *say, "--temperature", 0)[0]
    if not pf.cuda.is_available():  # in 16 bits two letters can be the likeliest
        assert pyflame(capsys, *say, "--top-k", 1)[0] == likeliest
        assert pyflame(capsys, *say, "--top-p", 0.001)[0] == likeliest
    assert pyflame(capsys, *say, "--seed", 2)[0] != out


def run_of(capsys, tmp_path, name, *options):
    out, _ = pyflame(capsys, "train", "gpt", *SMALL, "--steps", 12, "--log-interval", 1, "--out",
                     tmp_path / name, "--sample", 0, *options)  # fmt: skip
    return [e["loss"] for e in log(tmp_path / name)], held_out(out)


@pytest.mark.parametrize("options", [[], ["--dropout", "0.2", "--accumulate", "3"]])
def test_a_captured_step_is_the_step(capsys, text, tmp_path, options, monkeypatch):
    options = [*options, "--data", text]
    plain = run_of(capsys, tmp_path, "plain", *options)
    replays, run = [], captured.Step._replay
    monkeypatch.setattr(captured.Step, "_replay", lambda *a: (replays.append(1), run(*a))[1])
    assert run_of(capsys, tmp_path, "captured", "--compile", *options) == plain
    assert replays


def test_accumulated_batches_are_one(capsys, text, tmp_path):
    """The gradient of two batches of two is that of the four windows at once."""
    token_files.make(text, tmp_path / "t", tokenizers.Bytes())
    data = token_files.TokenData(str(tmp_path / "t"), 32)
    base = {
        "model": dict(vocab=320, layers=2, width=32, heads=2, context=32), "kind": "gpt2",
        "batch": 2, "accumulation": 2, "lr": 1e-3, "warmup": 1, "steps": 100, "weight_decay": 0.1,
        "clip": 1e9, "seed": 1,
    }  # fmt: skip
    accumulated = language.Trainer(base, data)
    whole = language.Trainer(base | {"batch": 4, "accumulation": 1}, data)
    windows = [accumulated.batches.window(i) for i in range(2)]
    a = accumulated.compute(*windows)
    b = whole.compute(pf.cat(windows))
    assert a.item() == pytest.approx(b.item(), rel=1e-6)
    for p, q in zip(accumulated.parameters, whole.parameters):
        assert pf.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-6)
    assert accumulated.tokens_a_step() == whole.tokens_a_step() == 128


@pytest.mark.parametrize("how, weights", [
    (signal.SIGINT, "float32"), (signal.SIGKILL, "float32"), (signal.SIGKILL, "bfloat16"),
])  # fmt: skip
def test_stopped_and_resumed_is_the_same_run(how, weights, text, tmp_path):
    """With accumulation, dropout, looks at held-out text and a captured step."""
    options = [*SMALL, "--data", text, "--steps", 60, "--dropout", 0.1, "--checkpoint-interval", 15,
               "--log-interval", 1, "--accumulate", 2, "--eval-interval", 20, "--compile",
               "--weights", weights]  # fmt: skip
    command = [sys.executable, "-m", "pyflame", "train", "gpt"]

    def start(*args):
        return subprocess.Popen(
            [*command, *map(str, args)], cwd=tmp_path, env=ENV, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    whole = start(*options, "--out", "whole")
    cut = start(*options, "--out", "cut")
    deadline = time.monotonic() + HANG
    while not list((tmp_path / "cut").glob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    cut.send_signal(how)
    out, _ = cut.communicate(timeout=HANG)
    said, _ = whole.communicate(timeout=HANG)
    assert whole.returncode == 0, said
    if "held-out" not in out:  # it may have been too quick for us
        again = start("--resume", "--out", "cut", "--sample", 12, "--threads", 1)
        out, _ = again.communicate(timeout=HANG)
        assert again.returncode == 0, out
        assert "going on at step" in out
    assert log(tmp_path / "cut") == log(tmp_path / "whole")
    results = [(tmp_path / r / "result.json").read_text() for r in ("cut", "whole")]
    assert results[0] == results[1]


def test_weights_in_bfloat16(capsys, text, tmp_path):
    """As good as float32 ones, beside which the model is kept in it."""
    options = [*SMALL, "--data", text, "--steps", 60, "--precision", "bfloat16"]
    nats = {}
    for weights in ("float32", "bfloat16"):
        out, _ = pyflame(
            capsys, "train", "gpt", *options, "--out", tmp_path / weights, "--weights", weights
        )
        nats[weights] = held_out(out)
        assert ("beside float32 masters" in out) == (weights == "bfloat16")
    assert nats["bfloat16"] == pytest.approx(nats["float32"], abs=0.05)
    _, err = pyflame(
        capsys, "train", "gpt", *options[:-1], "float32", "--out", tmp_path / "no", "--weights",
        "bfloat16", status=1,
    )  # fmt: skip
    assert "leave --precision out" in err


def test_token_files_of_others(capsys, text, tmp_path):
    """nanoGPT's folders say nothing of themselves; nor does one file."""
    folder = tmp_path / "shakespeare"
    folder.mkdir()
    tokens = np.frombuffer(text.read_bytes(), np.uint8).astype("<u2")
    tokens[:60000].tofile(folder / "train.bin")
    tokens[60000:].tofile(folder / "val.bin")
    out, _ = pyflame(capsys, "train", "gpt", *SMALL, "--data", folder, "--steps", 3, "--out",
                     tmp_path / "run")  # fmt: skip
    assert "60,000 tokens to learn from" in out and "sample:" in out
    config = configs.read_config(tmp_path / "run")
    assert config["model"]["vocab"] == 50304  # GPT-2's, for nothing else is said
    tokens.astype("<i4").tofile(tmp_path / "one.bin")
    out, _ = pyflame(capsys, "train", "gpt", *SMALL, "--data", tmp_path / "one.bin", "--dtype",
                     "int32", "--steps", 3, "--out", tmp_path / "one")  # fmt: skip
    held = len(tokens) // 20
    assert f"{len(tokens) - held:,} tokens to learn from, {held:,} held out" in out
    pyflame(capsys, "train", "gpt", "--resume", "--out", tmp_path / "one", "--sample", 0)


def test_training_goes_on_from_a_folder(capsys, text, tmp_path):
    pf.manual_seed(5)
    start = models.GPT2(vocab=320, layers=1, width=32, heads=2, context=32)
    start.save_pretrained(tmp_path / "start")
    args = ["train", "gpt", "--init", tmp_path / "start", "--data", text, "--tokenizer", "bytes",
            "--batch", 4, "--lr", 0.003, "--sample", 0, "--threads", 1]  # fmt: skip
    out, _ = pyflame(capsys, *args, "--steps", 80, "--out", tmp_path / "a")
    assert held_out(out) < 3.8
    data = token_files.TokenData(str(tmp_path / "a" / "tokens"), 32)
    config = configs.read_config(tmp_path / "a")
    trainer = language.Trainer(config, data)
    for (name, p), q in zip(trainer.model.named_parameters(), start.parameters()):
        assert pf.equal(p, q), name
    # Trained, written, and taken by generate.
    from pyflame.training.generate import load_model

    model, _ = load_model(tmp_path / "a")
    model.save_pretrained(tmp_path / "trained")
    say = ["--prompt", "line", "--tokens", 15, "--temperature", 0, "--tokenizer", "bytes"]
    of_run = pyflame(capsys, "generate", "--run", tmp_path / "a", *say)[0]
    assert pyflame(capsys, "generate", "--model", tmp_path / "trained", *say)[0] == of_run
    _, err = pyflame(capsys, *args, "--layers", 3, "--out", tmp_path / "b", status=1)
    assert "--layers" in err


def test_bad_input(capsys, text, tmp_path):
    def fails(*args, words):
        _, err = pyflame(capsys, *args, status=1)
        assert err.startswith("pyflame: error: pf.") and err.count("\n") == 1, err
        for w in words:
            assert w in err, err

    train = ["train", "gpt", "--out", tmp_path / "run", "--steps", 2]
    fails(*train, "--data", text, "--tokenizer", "bytes", words=["--preset"])
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "train.bin").write_bytes(b"\1\0" * 500)
    fails(*train, *SMALL, "--data", folder, words=["val.bin"])
    (folder / "val.bin").write_bytes(b"\1\0" * 50 + b"\1")
    fails(*train, *SMALL, "--data", folder, words=["val.bin", "101 bytes"])
    (folder / "val.bin").write_bytes(b"\1\0" * 10)
    fails(*train, *SMALL, "--data", folder, words=["val.bin", "10 tokens"])
    (folder / "val.bin").write_bytes(b"\1\0" * 500)
    (folder / "train.bin").write_bytes(b"\xff\xff" * 500)
    fails(*train, *SMALL, "--data", folder, words=["train.bin", "65535"])
    (tmp_path / "one.bin").write_bytes(b"\1\0" * 50)
    fails(*train, *SMALL, "--data", tmp_path / "one.bin", words=["one.bin", "--context"])
    fails(*train, *SMALL, "--data", tmp_path / "absent.bin", words=["absent.bin"])
    fails(*train, "--init", tmp_path / "absent", "--data", text, words=["absent"])
    fails(*train, *SMALL, "--data", text, "--width", 33, words=["width", "heads"])
    fails("generate", "--model", tmp_path / "absent", words=["absent"])
    (folder / "config.json").write_text('{"model_type": "bert"}')
    fails("generate", "--model", folder, words=["bert"])


def test_another_file_of_tokens_is_refused(capsys, text, tmp_path):
    run = tmp_path / "run"
    pyflame(capsys, "train", "gpt", *SMALL, "--data", text, "--steps", 3, "--out", run)
    path = run / "tokens" / "train.bin"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\1\0")
    _, err = pyflame(capsys, "train", "gpt", "--resume", "--out", run, status=1)
    assert "same bytes" in err
    path.write_bytes(b"\2\0" + whole[2:])
    _, err = pyflame(capsys, "train", "gpt", "--resume", "--out", run, status=1)
    assert "same bytes" in err


@pytest.mark.cpu_only
def test_damaged_configurations(capsys, text, tmp_path):
    run = tmp_path / "run"
    pyflame(capsys, "train", "gpt", *SMALL, "--data", text, "--steps", 3, "--out", run)
    path = run / "config.json"
    good = json.loads(path.read_text())
    assert configs.read_config(run) == good
    for change in (
        {"kind": "bert"}, {"kind": 3}, {"tokens": None}, {"dtype": "float8"}, {"tokenizer": 1},
        {"init": 7}, {"accumulation": 0}, {"compile": "yes"}, {"eval_interval": -1},
        {"model": good["model"] | {"heads": 3}}, {"model": good["model"] | {"more": 1}},
        {"model": {}}, {"model": None},
    ):  # fmt: skip
        path.write_text(json.dumps(good | change))
        _, err = pyflame(capsys, "train", "gpt", "--resume", "--out", run, status=1)
        assert "config.json" in err and "damaged" in err, (change, err)


# ---- the share of the peak --------------------------------------------------------------------------


@pytest.mark.cpu_only
def test_operations_of_a_step():
    """Those of nanoGPT's estimate, but for what its biases and norms have."""
    model = models.GPT2(models.GPT2Config.preset("gpt2", vocab=50304), device="meta")
    found = peak.step_operations(model, 32 * 1024, 1024)
    n = sum(p.numel() for p in model.parameters()) - 1024 * 768
    want = 32 * 1024 * (6 * n + 12 * 12 * 12 * 64 * 1024)
    assert found == pytest.approx(want, rel=2e-3)


def test_peaks(monkeypatch):
    most, source = peak.peak("float32")
    assert source == "a product" and most > 1e8
    for name, tera in (
        ("NVIDIA H200", 989.4), ("NVIDIA H100 80GB HBM3", 989.4), ("NVIDIA H100 PCIe", 756.0),
        ("AMD Instinct MI300X", 1307.4),
    ):  # fmt: skip
        monkeypatch.setattr(peak._C, "device_info", lambda *_, n=name: {"name": n})
        assert peak.peak("bfloat16") == (tera * 1e12, "data sheet")
