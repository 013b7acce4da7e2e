"""Models of folders on this machine, and weights that have been downloaded: names as in torch.hub.

PyFlame uses no network. What PyTorch would download is expected in the folder where it would put it,
and the error says which that is.
"""

import hashlib
import importlib.util
import os
import re
import sys
from urllib.parse import urlparse

from . import _C
from .serialization import load as _load

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]  # fmt: skip

_dir = None
HASH_REGEX = re.compile(r"-([a-f0-9]{6,})\.")


def get_dir():
    """The folder of downloads: set_dir()'s, $TORCH_HOME/hub, or ~/.cache/torch/hub."""
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d):
    """Changes the folder of downloads."""
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Refused: PyFlame uses no network."""
    raise _C.NotSupportedError(
        f"pf.hub: got the address {url}; PyFlame uses no network; download it yourself and put it "
        f"at '{dst}'"
    )


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True,
                             check_hash=False, file_name=None, weights_only=False):  # fmt: skip
    """The weights of an address, from the folder of downloads: the file is `file_name`, or the last
    part of the address, in `model_dir` or `get_dir()`/checkpoints.

    Raises:
        NotSupportedError: the file is not there; PyFlame uses no network.
        FileError: it is damaged: with check_hash its name says how its SHA-256 begins.
    """
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), name)
    if not os.path.exists(path):
        download_url_to_file(url, path)
    expected = HASH_REGEX.search(name) if check_hash else None
    if expected:
        with open(path, "rb") as f:
            found = hashlib.file_digest(f, "sha256").hexdigest()
        if not found.startswith(expected[1]):
            raise _C.FileError(
                f"pf.hub: '{path}' has the SHA-256 {found[:16]}...; expected one that begins with "
                f"{expected[1]}; download it again"
            )
    return _load(path, map_location=map_location, mmap=True)


def _entries(repo, source):
    """The module of a folder's hubconf.py."""
    path = os.path.join(repo, "hubconf.py")
    if source != "local" and not os.path.exists(path):
        owner, _, branch = str(repo).partition(":")
        copy = os.path.join(get_dir(), owner.replace("/", "_") + "_" + (branch or "main"))
        path = os.path.join(copy, "hubconf.py")
    if not os.path.exists(path):
        raise _C.NotSupportedError(
            f"pf.hub: there is no '{path}'; PyFlame uses no network; get the repository '{repo}' "
            "yourself, put it there, or give its folder with source='local'"
        )
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _entry(module, model):
    found = getattr(module, model, None)
    if not callable(found):
        raise _C.ValueError(
            f"pf.hub: got the model {model!r}; expected one of {_names(module)}; see hub.list()"
        )
    return found


def _names(module):
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True,
         source="github"):  # fmt: skip
    """The models of a folder with a hubconf.py, whose code is run."""
    return _names(_entries(github, source))


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None,
         source="github"):  # fmt: skip
    """What a model's docstring says."""
    return _entry(_entries(github, source), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False,
         verbose=True, skip_validation=False, **kwargs):  # fmt: skip
    """A model of a folder with a hubconf.py, whose code is run: a copy of a repository in the folder
    of downloads, or with source="local" any folder."""
    return _entry(_entries(repo_or_dir, source), model)(*args, **kwargs)


def _get_torch_home():
    """The folder above get_dir(), for libraries that ask."""
    return os.path.dirname(get_dir())
