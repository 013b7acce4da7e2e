"""`pyflame generate`: text from a trained GPT, token by token."""

import codecs
import os
import sys

from .. import _C, _ops, manual_seed
from ..checkpoint import Checkpoints
from ..models import pretrained
from ..models.gpt import GPT
from ..models.gpt2 import GPT2
from ..models.llama import Llama
from . import gpt as job
from .config import check_model
from .devices import multiplies_bfloat16, use
from .runs import newest_directory
from .tokenizers import tokenizer


def load_model(directory):
    """(model of the newest good checkpoint in a run's directory, its configuration)."""
    found = Checkpoints(directory).load()
    if found is None:
        raise _C.FileError(
            f"pf.generate: there is no checkpoint in '{directory}'; expected a run of `pyflame "
            "train gpt`; train one or name its directory with --run"
        )
    try:
        config = found.state["config"]
        kind = config.get("kind", "bytes")
        sizes = check_model(config["model"], kind)
        weights = found.state["model"]
        model = GPT(sizes) if kind == "bytes" else GPT2(sizes, device="meta")
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _C.FileError(
            f"pf.generate: '{found.path}' holds no GPT; expected a checkpoint of `pyflame train "
            "gpt`; name another --run"
        ) from None
    model.load_state_dict(weights, assign=kind != "bytes")
    return model.eval(), config


def _from_folder(folder, dtype):
    kind = pretrained.model_type(folder)
    for cls in (GPT2, Llama):
        if cls.model_type == kind:
            return cls.from_pretrained(folder, dtype=dtype)
    raise _C.NotSupportedError(
        f"pf.generate: '{folder}' is of model_type {str(kind)[:60]!r}; expected 'gpt2' or 'llama'"
    )


def run(args):
    if sys.stdout is None:
        raise _C.FileError("pf.generate: standard output is closed; expected one; open it")
    use(args)
    dtype = _C.float32
    if args.precision == "bfloat16" or (args.precision == "auto" and multiplies_bfloat16()):
        dtype = _C.bfloat16
    if args.model is not None:
        wanted = args.tokenizer
        if wanted is None and os.path.exists(os.path.join(args.model, "tokenizer.json")):
            wanted = args.model
        return _of_tokens(args, _from_folder(args.model, dtype), wanted)
    advice = "train one with `pyflame train gpt`, or name another with --run or --model"
    model, config = load_model(newest_directory(args.run, "pf.generate", advice))
    if not isinstance(model, GPT):
        return _of_tokens(args, model.to(dtype), args.tokenizer or config["tokenizer"])
    return _of_bytes(args, model)


def _of_bytes(args, model):
    manual_seed(args.seed)
    prompt = args.prompt.encode("utf-8", errors="surrogateescape") or b"\n"
    sys.stdout.write(args.prompt)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    context = model.config.context
    tokens = list(prompt)
    for _ in range(args.bytes):
        out = model.generate(
            _ops.tensor([tokens[-context:]]), 1, args.temperature, args.top_k, args.top_p
        )
        tokens.append(int(out[0, -1].item()))
        _write(decoder.decode(bytes(tokens[-1:])))
    sys.stdout.write("\n")
    return 0


def _write(text):
    sys.stdout.write(job.printable(text))
    sys.stdout.flush()


def _of_tokens(args, model, wanted):
    how, note = tokenizer(wanted or "auto")
    if note:
        sys.stderr.write(f"note: {note}\n")
    if how.vocab > model.config.vocab:
        raise _C.ValueError(
            f"pf.generate: the tokenizer {how.name} has {how.vocab} tokens and the model "
            f"{model.config.vocab}; expected the model's own; name it with --tokenizer"
        )
    prompt = how.encode(args.prompt.encode("utf-8", errors="surrogateescape"))
    prompt = prompt or [how.end or 0]
    count = min(args.bytes, model.config.context - len(prompt))
    sys.stdout.write(args.prompt)
    text = how.stream()
    steps = model.stream(
        [prompt], max(count, 0), temperature=args.temperature, top_k=args.top_k, top_p=args.top_p,
        seed=args.seed, eos=how.end, vocab=how.vocab, compile=args.compile,
    )  # fmt: skip
    for (token,) in steps:
        if token != how.end:
            _write(text(token))
    sys.stdout.write("\n")
    return 0
