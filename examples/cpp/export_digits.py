"""Writes scikit-learn's digits to a file that mlp_digits.cpp reads.

Layout, little-endian: "PFDIGITS", uint32 version 1, uint32 images, uint32 pixels of an image,
uint32 classes; then images × pixels bytes (0 to 16), then one byte with the class of each image.
"""

import struct
import sys

from sklearn.datasets import load_digits

path = sys.argv[1] if len(sys.argv) > 1 else "digits.bin"
digits = load_digits()
pixels, labels = digits.data.astype("uint8"), digits.target.astype("uint8")
with open(path, "wb") as f:
    f.write(b"PFDIGITS")
    f.write(struct.pack("<4I", 1, pixels.shape[0], pixels.shape[1], len(digits.target_names)))
    f.write(pixels.tobytes())
    f.write(labels.tobytes())
print(f"{path}: {pixels.shape[0]} images")
