"""The handwritten digits that come with scikit-learn."""

from .. import _C
from ..utils.data.dataset import Dataset, TensorDataset, batched
from ._opening import Transformed, needs


@batched
class Digits(Transformed, Dataset):
    """1797 pictures of digits: (float32 [1, 8, 8] from 0 to 1, label from 0 to 9).

    They come with scikit-learn (`pip install scikit-learn`), so nothing is downloaded. `tensors` has
    all pictures and all labels.
    """

    def __init__(self, transform=None):
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise needs("scikit-learn", "scikit-learn", "Digits") from None
        import numpy as np

        digits = load_digits()
        images = (digits.images[:, None] / 16).astype(np.float32)
        self.tensors = tuple(
            _C.from_numpy(np.ascontiguousarray(a)).to(_C.get_device())
            for a in (images, digits.target.astype(np.int64))
        )
        self.transform = transform

    def __len__(self):
        return self.tensors[0].shape[0]

    def __getitem__(self, index):
        image, label = (t[index] for t in self.tensors)
        return self._transformed(image), label

    def _batch(self, indices):
        images, labels = TensorDataset._batch(self, indices)
        return [self._transformed(images), labels]
