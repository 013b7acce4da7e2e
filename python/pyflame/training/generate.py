"""`pyflame generate`: text from a trained GPT, byte by byte."""

import codecs
import sys

from .. import _C, _ops, manual_seed
from ..checkpoint import Checkpoints
from ..models.gpt import GPT
from . import gpt as job
from .config import check_model
from .devices import use
from .runs import newest_directory


def load_model(directory):
    """The model of the newest good checkpoint in a run's directory."""
    found = Checkpoints(directory).load()
    if found is None:
        raise _C.FileError(
            f"pf.generate: there is no checkpoint in '{directory}'; expected a run of `pyflame "
            "train gpt`; train one or name its directory with --run"
        )
    try:
        config = check_model(found.state["config"]["model"])
        weights = found.state["model"]
    except (KeyError, TypeError, ValueError):
        raise _C.FileError(
            f"pf.generate: '{found.path}' holds no GPT; expected a checkpoint of `pyflame train "
            "gpt`; name another --run"
        ) from None
    model = GPT(config)
    model.load_state_dict(weights)
    return model.eval()


def run(args):
    if sys.stdout is None:
        raise _C.FileError("pf.generate: standard output is closed; expected one; open it")
    use(args)
    model = load_model(newest_directory(args.run))
    manual_seed(args.seed)
    prompt = args.prompt.encode("utf-8", errors="surrogateescape") or b"\n"
    temperature = args.temperature if args.temperature > 1e-4 else 0.0  # or logits overflow
    sys.stdout.write(args.prompt)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    context = model.config.context
    tokens = list(prompt)
    for _ in range(args.bytes):
        out = model.generate(
            _ops.tensor([tokens[-context:]]), 1, temperature=temperature, top_k=args.top_k
        )
        tokens.append(int(out[0, -1].item()))
        sys.stdout.write(job.printable(decoder.decode(bytes(tokens[-1:]))))
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
