"""Text as tokens: by tiktoken, by tokenizers, or as bytes."""

import os

from .. import _C, _files

END = "<|endoftext|>"
_MOST = 1 << 28  # bytes of a tokenizer's file


class Tokenizer:
    """`vocab` tokens, one of which, `end`, stands behind each document (None: there is none). `name`
    finds the same one again."""

    def encode(self, data):
        """A list of ints for bytes that are text; what is no UTF-8 is replaced."""
        raise NotImplementedError

    def decode(self, tokens):
        """Text; tokens that are unknown are left out."""
        raise NotImplementedError

    def stream(self):
        """A function that takes tokens one by one and gives the text that is complete."""
        held = []

        def text(token):
            held.append(token)
            now = self.decode(held)
            if now.endswith("\N{REPLACEMENT CHARACTER}") and len(held) < 8:
                return ""  # a letter of several bytes is not whole
            held.clear()
            return now

        return text


class Bytes(Tokenizer):
    """A token for each byte."""

    name, vocab, end = "bytes", 257, 256

    def encode(self, data):
        return list(data)

    def decode(self, tokens):
        return bytes(t for t in tokens if t < 256).decode("utf-8", "replace")


class Tiktoken(Tokenizer):
    """An encoding of the package tiktoken, such as "gpt2"."""

    def __init__(self, name):
        import tiktoken

        self.name = name
        self.encoding = tiktoken.get_encoding(name)
        self.vocab, self.end = self.encoding.n_vocab, self.encoding.eot_token

    def encode(self, data):
        return self.encoding.encode_ordinary(data.decode("utf-8", "replace"))

    def decode(self, tokens):
        known = [t for t in tokens if t < self.vocab]
        return self.encoding.decode_bytes(known).decode("utf-8", "replace")


class Tokenizers(Tokenizer):
    """A tokenizer.json, read by the package tokenizers."""

    def __init__(self, path):
        import tokenizers

        self.name = os.path.abspath(path)
        text = _files.read_regular(path, "train", _MOST)
        try:
            self.tokenizer = tokenizers.Tokenizer.from_buffer(text)
        except Exception as e:  # of the package: it has no class of its own
            raise _C.FileError(
                f"pf.train: '{path}' is no tokenizer ({str(e)[:100]}); expected a tokenizer.json; "
                "check --tokenizer"
            ) from None
        self.vocab = self.tokenizer.get_vocab_size(with_added_tokens=True)
        self.end = None
        for name in (END, "<|end_of_text|>", "</s>"):
            if self.end is None:
                self.end = self.tokenizer.token_to_id(name)

    def encode(self, data):
        text = data.decode("utf-8", "replace")
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens):
        return self.tokenizer.decode([t for t in tokens if t < self.vocab])


def tokenizer(wanted="auto"):
    """(Tokenizer, a note for people or None).

    "bytes"; an encoding of tiktoken ("gpt2"); a tokenizer.json or a folder with one; "auto": GPT-2's by
    tiktoken where the package and its table are there, bytes otherwise.
    """
    if wanted == "bytes":
        return Bytes(), None
    if wanted == "auto":
        try:
            return Tiktoken("gpt2"), None
        except ImportError:
            why = "tiktoken is not installed (pip install tiktoken)"
        except Exception as e:  # it has none of its own: no network, a damaged cache
            why = f"tiktoken has no table of GPT-2's here ({type(e).__name__})"
        return Bytes(), f"{why}: a token is a byte, and not one of GPT-2's"
    path = os.path.join(wanted, "tokenizer.json") if os.path.isdir(wanted) else wanted
    if os.sep in wanted or wanted.endswith(".json") or os.path.exists(wanted):
        try:
            return Tokenizers(path), None
        except ImportError:
            raise _missing("tokenizers", path) from None
        except _C.FileError:
            raise
        except (OSError, ValueError) as e:
            raise _C.FileError(
                f"pf.train: '{path}' cannot be read ({getattr(e, 'strerror', None) or e}); expected a "
                "tokenizer.json; check --tokenizer"
            ) from None
    try:
        return Tiktoken(wanted), None
    except ImportError:
        raise _missing("tiktoken", wanted) from None
    except Exception as e:
        raise _C.ValueError(
            f"pf.train: tiktoken cannot give the encoding '{wanted[:80]}' ({str(e)[:120]}); expected "
            "one that it has, a tokenizer.json, or bytes; check --tokenizer"
        ) from None


def _missing(package, what):
    return _C.NotSupportedError(
        f"pf.train: '{what}' needs the package {package}, which is not installed; expected it "
        f"beside PyFlame; run: pip install {package}, or take --tokenizer bytes"
    )
