"""Sphinx configuration. The pages of operations and layers are generated at build time."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
sys.path.insert(0, str(HERE))

sys.path.insert(0, str(HERE.parent / "tools"))

import generate  # noqa: E402
import kernel_results  # noqa: E402

project = "PyFlame"
copyright = "the PyFlame authors"
release = re.search(
    r"project\(pyflame VERSION ([0-9.]+)", (HERE.parent / "CMakeLists.txt").read_text()
).group(1)
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Deep learning that reads like PyTorch and fuses what you write",
    "fixed_sidebar": True,
}
autodoc_member_order = "bysource"

generate.write_operations(HERE / "generated")
generate.write_layers(HERE / "generated" / "layers.md")
(HERE / "generated" / "kernel_checks.txt").write_text(kernel_results.state())
