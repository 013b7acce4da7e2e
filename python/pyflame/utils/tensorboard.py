"""SummaryWriter: event files as TensorBoard reads them, with the names of torch.utils.tensorboard.

TensorBoard itself is not needed to write them. Videos, sounds, meshes, embeddings, curves of precision
and graphs of models are refused: nothing is written in their place.
"""

import os
import socket
import time

from .. import _C
from .event_files import EventFile, double, message, number

__path__ = []  # utils.tensorboard.writer: _aliases.py

__all__ = ["FileWriter", "SummaryWriter"]


def _value(x):
    """A number of a tensor, an array or a number."""
    if isinstance(x, _C.Tensor):
        return x.detach().item()
    return x.item() if hasattr(x, "item") else float(x)


def _array(x):
    import numpy as np

    if isinstance(x, _C.Tensor):
        x = x.detach()
        return (x if x.dtype.name != "bfloat16" else x.float()).cpu().numpy()
    return np.asarray(x)


def _histogram(values, bins):
    """A HistogramProto of values."""
    import numpy as np

    a = _array(values).astype(np.float64).reshape(-1)
    a = a[np.isfinite(a)]
    if not a.size:
        raise _C.ValueError(
            "pf.SummaryWriter.add_histogram: got no finite values; expected some; leave it out"
        )
    if bins == "tensorflow":  # bins whose limits grow by a tenth
        limits = np.array([1e-12 * 1.1**i for i in range(1100)][:774])
        bins = np.concatenate([[-np.inf], -limits[::-1], [0.0], limits, [np.inf]])
    counts, edges = np.histogram(a, bins=bins)
    used = np.nonzero(counts)[0]
    low, high = max(used[0] - 1, 0), min(used[-1] + 2, len(counts))
    counts, limits = counts[low:high], edges[low + 1 : high + 1]

    def packed(field, xs):
        import struct

        return message(field, struct.pack(f"<{len(xs)}d", *xs))

    return b"".join(
        (
            double(1, a.min()), double(2, a.max()), double(3, a.size), double(4, a.sum()),
            double(5, float(a @ a)), packed(6, limits.tolist()), packed(7, counts.tolist()),
        )
    )  # fmt: skip


def _picture(image, form):
    """An Image message of an array of 0 to 1, or bytes of 0 to 255."""
    import io

    import numpy as np
    from PIL import Image

    a = _array(image)
    order = [form.upper().index(c) for c in "HWC" if c in form.upper()]
    a = np.transpose(a, order)
    a = a[:, :, None] if a.ndim == 2 else a
    if a.dtype != np.uint8:
        a = (a.clip(0, 1) * 255).astype(np.uint8)
    a = np.repeat(a, 3, axis=2) if a.shape[2] == 1 else a
    out = io.BytesIO()
    Image.fromarray(a).save(out, "PNG")
    height, width, channels = a.shape
    parts = number(1, height), number(2, width), number(3, channels)
    return b"".join(parts) + message(4, out.getvalue())


def _grid(images, form, columns=8):
    """Several pictures as one, in rows of eight."""
    import numpy as np

    a = _array(images)
    order = [form.upper().index(c) for c in "NHWC"]
    a = np.transpose(a, order)
    n, height, width, channels = a.shape
    columns = min(columns, n)
    rows = -(-n // columns)
    whole = np.zeros((rows * height, columns * width, channels), a.dtype)
    for i in range(n):
        y, x = divmod(i, columns)
        whole[y * height : (y + 1) * height, x * width : (x + 1) * width] = a[i]
    return whole


class SummaryWriter:
    """Writes scalars, histograms, texts, pictures and hyperparameters into an event file.

    Args:
        log_dir: the folder; runs/DATE_HOST with `comment` behind it by default.
        purge_step: what older files of the folder have from this step on does not count any more.
        max_queue, flush_secs: after so many events, or so many seconds, they are written.
        filename_suffix: the end of the file's name.
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120,
                 filename_suffix=""):  # fmt: skip
        if not log_dir:
            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self._files = {}  # by folder below log_dir
        self._waiting, self._flushed = 0, time.monotonic()
        self._file()

    def _file(self, folder=""):
        if folder not in self._files:
            self._files[folder] = EventFile(
                os.path.join(self.log_dir, folder) if folder else self.log_dir,
                purge_from=self.purge_step, suffix=self.filename_suffix,
            )  # fmt: skip
        return self._files[folder]

    def _noted(self):
        self._waiting += 1
        if self._waiting >= self.max_queue or time.monotonic() - self._flushed > self.flush_secs:
            self.flush()

    def _summary(self, value, step, walltime, folder=""):
        self._file(folder).summary(value, 0 if step is None else int(step), walltime)
        self._noted()

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False,
                   double_precision=False):  # fmt: skip
        """A number at a step."""
        step = 0 if global_step is None else int(global_step)
        self._file().scalar(tag, _value(scalar_value), step, walltime)
        self._noted()

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers of one chart: each in a folder of its own, as TensorBoard wants them."""
        step = 0 if global_step is None else int(global_step)
        for tag, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{tag}"
            self._file(folder).scalar(main_tag, _value(value), step, walltime)
            self._noted()

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None,
                      max_bins=None):  # fmt: skip
        """How values are distributed."""
        data = message(1, tag) + message(5, _histogram(values, bins))
        self._summary(data, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: floats of 0 to 1 or bytes. Needs Pillow."""
        data = message(1, tag) + message(4, _picture(img_tensor, dataformats))
        self._summary(data, global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Several pictures, as one in rows of eight. Needs Pillow."""
        self.add_image(tag, _grid(img_tensor, dataformats), global_step, walltime, "HWC")

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, which TensorBoard reads as Markdown."""
        plugin = message(1, "text") + message(2, b"")
        tensor = number(1, 7) + message(2, message(2, number(1, 1))) + message(8, text_string)
        data = (
            message(1, tag + "/text_summary") + message(9, message(1, plugin)) + message(8, tensor)
        )
        self._summary(data, global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
                    global_step=None):  # fmt: skip
        """Settings and what came of them, as a text and as numbers."""
        table = ["| setting | value |", "|---|---|"]
        table += [f"| {k} | {v} |" for k, v in hparam_dict.items()]
        self.add_text("hparams", "\n".join(table), global_step)
        for tag, value in metric_dict.items():
            self.add_scalar(tag, value, global_step)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127,
                     weights=None, walltime=None):  # fmt: skip
        """Refused; see the module."""
        self._refuse("add_pr_curve")

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, as a picture. Needs Pillow and matplotlib."""
        import numpy as np

        figures = figure if isinstance(figure, list) else [figure]
        pictures = []
        for f in figures:
            f.canvas.draw()
            pictures.append(np.asarray(f.canvas.buffer_rgba())[:, :, :3])
        whole = pictures[0] if len(pictures) == 1 else _grid(np.stack(pictures), "NHWC")
        self.add_image(tag, whole, global_step, walltime, "HWC")
        if close:
            import matplotlib.pyplot as plt

            for f in figures:
                plt.close(f)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Refused; see the module."""
        self._refuse("add_graph")

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default",
                      metadata_header=None):  # fmt: skip
        """Refused; see the module."""
        self._refuse("add_embedding")

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Refused; see the module."""
        self._refuse("add_video")

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Refused; see the module."""
        self._refuse("add_audio")

    def _refuse(self, name):
        raise _C.NotSupportedError(
            f"pf.SummaryWriter.{name}: is not written; expected scalars, histograms, texts or "
            "pictures; use TensorBoard's own writer for it"
        )

    def flush(self):
        """Writes what waits; FileError or OSError when that is refused, and it is kept."""
        for f in self._files.values():
            f.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self):
        """Writes what waits."""
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


FileWriter = SummaryWriter
