"""Damaged files for every reader: a value or a FileError, in little time and memory."""

import contextlib
import json
import os
import random
import resource
import tempfile
import time
import warnings
from pathlib import Path

from harness import Finding, rounds

import pyflame as pf
from pyflame import safetensors
from pyflame.checkpoint import Checkpoints, verify
from pyflame.models import GPT2
from pyflame.models.gpt import GPTConfig
from pyflame.training import config, token_files
from pyflame.training.records import JsonLines
from pyflame.training.tokenizers import Bytes

WORDS = [
    b"",
    b"\0",
    b"\xff",
    b"{",
    b"}",
    b"[" * 200,
    b'"',
    b",",
    b"null",
    b"-1",
    b"1e999",
    b"9" * 30,
]
WORDS += [b'"$":"typed","v":"ndarray","of":', b'"step"', b"__metadata__", b"\\ud800", b"F32", b"I4"]

SETTINGS = {
    "model": vars(GPTConfig(layers=1, width=16, heads=2, context=16)),
    "steps": 20, "batch": 4, "seed": 1, "warmup": 1, "lr": 1e-3, "clip": 1.0, "weight_decay": 0.1,
    "log_interval": 10, "eval_bytes": 100, "data": None, "fingerprint": "0",
}  # fmt: skip


def damage(data: bytes, dice: random.Random) -> bytes:
    bad = bytearray(data)
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(min(len(bad), 1200) + 1)
        how = dice.randrange(5)
        if how == 0 and at < len(bad):
            bad[at] ^= 1 << dice.randrange(8)
        elif how == 1:
            bad[at : at + dice.randrange(6)] = dice.choice(WORDS)
        elif how == 2:
            del bad[at : at + dice.randrange(30)]
        elif how == 3:
            bad[at:at] = bad[dice.randrange(len(bad) + 1) :][: dice.randrange(60)]
        else:
            del bad[at:]
    if len(bad) > 8 and dice.random() < 0.6:  # a length that fits lets the damage reach the readers
        end = bad.rfind(b"]}}")
        bad[:8] = (end - 5 if end > 8 else len(bad) - 8).to_bytes(8, "little")
    return bytes(bad)


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        w = pf.arange(12).float().reshape(3, 4)
        pf.save({"w": w, "t": w.t(), "s": {1, "a"}, 3: (..., 2.5, b"x", range(3))}, folder / "tree")
        safetensors.save_file({"a": w}, folder / "plain", metadata={"format": "pt"})
        runs = Checkpoints(folder / "run")
        runs.save(1, {"n": 1})
        runs.save(2, {"n": 2}, loss=0.5)
        manifest = folder / "run" / "step-00000002" / "manifest.json"
        (folder / "config.json").write_text(json.dumps(SETTINGS, indent=1))
        log = folder / "log.jsonl"
        log.write_bytes(b"".join(b'{"step": %d, "bits_per_byte": 1.0}\n' % i for i in range(30)))

        small = GPT2(vocab=40, layers=1, width=8, heads=2, context=8)
        small.save_pretrained(folder / "gpt2", max_shard_bytes=3000)
        shard, index = (
            sorted((folder / "gpt2").glob(n))[0] for n in ("*.safetensors", "*.index.json")
        )
        (folder / "text").write_text("some text\n" * 99)
        tokens = folder / "tokens"
        token_files.make(folder / "text", tokens, Bytes())

        def language(path: Path) -> None:
            with contextlib.suppress(pf.NotSupportedError):  # such as another kind of model
                GPT2.from_pretrained(path.parent)

        def windows(path: Path) -> None:
            data = token_files.TokenData(str(path.parent), 8)
            data.limit(300)
            data.train.windows([0, len(data.train) - 9])

        def newest(path: Path) -> None:
            if runs.load().step != 1:
                raise Finding("a damaged manifest was taken")

        readers = [
            (folder / "tree", [pf.load, lambda p: pf.load(p, mmap=True), safetensors.load_file]),
            (folder / "plain", [pf.load, safetensors.metadata, safetensors.load_file]),
            (manifest, [newest, lambda p: verify(p.parent)]),
            (folder / "config.json", [lambda p: config.read_config(p.parent)]),
            (log, [lambda p: JsonLines(p).cut(20)]),
            (folder / "gpt2" / "config.json", [language]),
            (index, [language]),
            (shard, [language]),
            (tokens / "tokens.json", [windows]),
            (tokens / "train.bin", [windows]),
        ]
        good = {path: path.read_bytes() for path, _ in readers}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in rounds(seconds):
            path, ways = dice.choice(readers)
            bad = damage(good[path], dice)
            if bad == good[path]:
                continue
            for way in ways:
                path.write_bytes(bad)
                began = time.monotonic()
                try:
                    with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
                        repr(way(path))
                except pf.FileError:
                    pass
                except TypeError as e:
                    if "not allowed" not in str(e):
                        raise Finding(f"{path.name}: {bad!r}") from e
                except Exception as e:
                    raise Finding(f"{path.name}: {bad!r}") from e
                if time.monotonic() - began > 20:
                    raise Finding(f"{path.name} took long: {bad!r}")
            path.write_bytes(good[path])
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > 500_000:
            raise Finding(f"memory grew by {grown} KB")
        assert os.listdir(folder)
