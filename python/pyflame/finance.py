"""Volume profiles: how much was traded at which price."""

from __future__ import annotations

import dataclasses
import math

from . import _C, _ops

__all__ = ["VolumeProfile", "VolumeProfileAnalyzer"]

_BINS = 1 << 24


@dataclasses.dataclass(frozen=True)
class VolumeProfile:
    """The volume traded in bins of price.

    Attributes:
        edges: float64 NumPy array [bins + 1], the prices between which a bin lies; the last one
            belongs to the last bin.
        volume: float64 NumPy array [bins].
        point_of_control: the middle of the bin with the most volume, the lowest of equals; NaN for a
            session in which nothing was traded.
        value_area: the lowest and the highest price of the bins around it that hold
            `value_area_share` of the volume.
    """

    edges: object
    volume: object
    point_of_control: float
    value_area: tuple[float, float]
    value_area_share: float = 0.7

    @property
    def total(self):
        """The volume of the whole session."""
        return float(self.volume.sum())


class VolumeProfileAnalyzer:
    """Profiles of sessions: the point of control, and the value area around it.

        analyzer = VolumeProfileAnalyzer(price_precision=0.25, device="cpu")
        profile = analyzer.profile(session)          # a DataFrame, a dict or (close, volume)
        profile.point_of_control, profile.value_area

    A session has prices and volumes of trades (or closes of bars): a DataFrame or a dict with the columns
    `close` and `volume`, or two arrays. Trades whose price or volume is NaN do not count. A session without
    any trade, or without volume, has no bins, a point of control of NaN, and a value area of NaNs. One
    with one price has one bin. Negative volumes and infinite numbers are a ValueError.

    Args:
        price_precision: the width of a bin of :meth:`profile`; bins begin at multiples of it.
        device: where the work is done; "cuda" is any GPU, "cpu" works alike, and gives the same bins.
        device_ids: the GPUs that may be used; the first one is.
        chunk_size: trades that go to the device at once, or None for all. Sessions of any length take
            no more memory there; the result is the same but for rounding (float64).
        value_area_share: of the volume, in the value area.

    RuntimeError (DeviceError) says so when the device does not work: it is used when the analyzer is
    made. The environment is left alone: HIP_VISIBLE_DEVICES and HSA_... are read when the runtime
    starts, so setting them in a constructor is too late.
    """

    def __init__(
        self, price_precision=0.25, device="cuda", device_ids=(0,), chunk_size=3500, *,
        value_area_share=0.7,
    ):  # fmt: skip
        op = "VolumeProfileAnalyzer"
        if not (isinstance(price_precision, int | float) and 0 < price_precision < math.inf):
            raise _C.ValueError(
                f"pf.finance.{op}: got price_precision {price_precision!r}; expected the width of a "
                "bin, above 0"
            )
        if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
            raise _C.ValueError(
                f"pf.finance.{op}: got chunk_size {chunk_size!r}; expected a number of trades from 1, "
                "or None"
            )
        if not 0 < value_area_share <= 1:
            raise _C.ValueError(
                f"pf.finance.{op}: got value_area_share {value_area_share!r}; expected above 0, at most 1"
            )
        self.device_ids = list(device_ids)
        self.device = _C.device(device)
        if self.device.type != "cpu":
            if not self.device_ids:
                raise _C.ValueError(
                    f"pf.finance.{op}: got no device_ids; expected one, such as [0]"
                )
            if self.device.index is None or ":" not in str(device):
                self.device = _C.device(self.device.type, self.device_ids[0])
        try:
            works = (_ops.ones(1, device=self.device) + 1).item() == 2
        except _C.PyFlameError as e:
            raise _C.DeviceError(f"pf.finance.{op}: {self.device} not accessible: {e}") from e
        if not works:
            raise _C.DeviceError(
                f"pf.finance.{op}: {self.device} not accessible: it calculates wrongly"
            )
        self.price_precision = float(price_precision)
        self.chunk_size = chunk_size
        self.value_area_share = float(value_area_share)

    # ---- sessions ---------------------------------------------------------------------------------

    @staticmethod
    def _columns(session, volume):
        import numpy as np

        if volume is not None:
            pair = session, volume
        elif isinstance(session, tuple | list) and len(session) == 2:
            pair = session
        else:
            try:
                pair = session["close"], session["volume"]
            except (KeyError, TypeError, IndexError, AttributeError):
                raise _C.ValueError(
                    f"pf.finance.VolumeProfileAnalyzer: got {type(session).__name__} without columns "
                    "'close' and 'volume'; expected a DataFrame or dict that has them, or two arrays"
                ) from None
        arrays = []
        for name, values in zip(("close", "volume"), pair):
            if isinstance(values, _C.Tensor):
                values = values.detach().cpu().numpy()
            try:
                values = np.asarray(getattr(values, "values", values))
                if values.dtype not in (np.float32, np.float64):
                    values = values.astype(np.float64)
            except (TypeError, ValueError):
                raise _C.DTypeError(
                    f"pf.finance.VolumeProfileAnalyzer: '{name}' holds no numbers; expected prices and "
                    "volumes"
                ) from None
            arrays.append(values)
        close, volume = arrays
        if close.ndim != 1 or close.shape != volume.shape:
            raise _C.ShapeError(
                f"pf.finance.VolumeProfileAnalyzer: got close {close.shape} and volume {volume.shape}; "
                "expected two arrays of one dimension and length"
            )
        return close, volume

    def _chunks(self, close, volume):
        """Pairs of tensors on the device. On the CPU arrays are read where they lie."""
        size = len(close) if self.device.type == "cpu" or not self.chunk_size else self.chunk_size
        for i in range(0, len(close), max(1, size)):
            yield tuple(_C.as_tensor(a[i : i + size]).to(self.device) for a in (close, volume))

    def _range(self, close, volume):
        """The lowest and the highest price of trades that count, or None."""
        low, high, least, most = math.inf, -math.inf, math.inf, -math.inf
        for price, amount in self._chunks(close, volume):
            counts = ~(price.isnan() | amount.isnan())
            low = min(low, _ops.where(counts, price, math.inf).min().item())
            high = max(high, _ops.where(counts, price, -math.inf).max().item())
            least = min(least, _ops.where(counts, amount, math.inf).min().item())
            most = max(most, _ops.where(counts, amount, -math.inf).max().item())
        if low == math.inf and high == -math.inf:
            return None
        if least < 0 or math.inf in (-low, high, most):
            what = f"a volume of {least:g}" if least < 0 else "an infinite number"
            raise _C.ValueError(
                f"pf.finance.VolumeProfileAnalyzer: got {what}; expected finite prices, and volumes from 0"
            )
        return low, high

    def _volumes(self, close, volume, edges):
        """The volume in each bin, float64, and how many trades have none."""
        import numpy as np

        ends = _C.as_tensor(edges).to(self.device)
        total, without = np.zeros(len(edges) - 1), 0
        for price, amount in self._chunks(close, volume):
            sums, left_out = _ops._binned_sums(price, amount, ends)
            total += sums.cpu().numpy()
            without += left_out.item()
        return total, without

    def _grid(self, low, high):
        """Edges of bins of `price_precision` that have the prices from `low` to `high`."""
        import numpy as np

        width = self.price_precision
        first, last = math.floor(low / width), math.floor(high / width)
        # A price on an edge belongs above it, however the division was rounded.
        first -= first * width > low
        last += (last + 1) * width <= high
        if last - first >= _BINS:
            raise _C.ValueError(
                f"pf.finance.VolumeProfileAnalyzer: prices from {low:g} to {high:g} are "
                f"{last - first + 1:,} bins of {width:g}; expected at most {_BINS:,}; choose a larger "
                "price_precision"
            )
        return np.arange(first, last + 2) * width

    def _likely(self, close):
        """Edges that should have all prices, from a few of them; None where they tell nothing."""
        import numpy as np

        some = close[:: max(1, len(close) // 1000)]
        low, high = (
            (float(f(some)) for f in (np.min, np.max)) if len(some) else (math.nan, math.nan)
        )
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        more = (high - low) / 8 + self.price_precision
        if (high - low + 2 * more) / self.price_precision >= _BINS:
            return None
        return self._grid(low - more, high + more)

    # ---- what users call --------------------------------------------------------------------------

    def profile(self, session, volume=None):
        """The :class:`VolumeProfile` of a session, in bins of `price_precision`."""
        import numpy as np

        close, volume = self._columns(session, volume)
        # One pass where a few prices told the range; another one where a trade was left out.
        edges = self._likely(close)
        if edges is not None:
            volumes, without = self._volumes(close, volume, edges)
        if edges is None or without:
            ends = self._range(close, volume)
            if ends is None:
                return self._described(np.zeros(1), np.zeros(0))
            edges = self._grid(*ends)
            volumes, _ = self._volumes(close, volume, edges)
        traded = np.flatnonzero(volumes)
        if len(traded):
            edges = edges[traded[0] : traded[-1] + 2]
            volumes = volumes[traded[0] : traded[-1] + 1]
        return self._described(edges, volumes)

    def _described(self, edges, volumes):
        total = volumes.sum()
        if not total > 0:
            return VolumeProfile(
                edges[:1], volumes[:0], math.nan, (math.nan, math.nan), self.value_area_share
            )
        peak = low = high = int(volumes.argmax())
        inside = volumes[peak]
        # The side whose next bin holds more is taken in first; of equals the upper one.
        while inside < self.value_area_share * total and (low > 0 or high + 1 < len(volumes)):
            above = volumes[high + 1] if high + 1 < len(volumes) else -1.0
            below = volumes[low - 1] if low > 0 else -1.0
            if above >= below:
                high += 1
                inside += above
            else:
                low -= 1
                inside += below
        return VolumeProfile(
            edges, volumes, float((edges[peak] + edges[peak + 1]) / 2),
            (float(edges[low]), float(edges[high + 1])), self.value_area_share,
        )  # fmt: skip

    def calculate_volume_profile_stable(self, session_df, bins=1000):
        """float64 NumPy array [bins]: the volume in as many equal bins from the lowest to the highest
        price, as ``numpy.histogram(close, bins, weights=volume)`` has it; zeros for an empty session.

        RuntimeError whose cause is what went wrong.
        """
        import numpy as np

        try:
            close, volume = self._columns(session_df, None)
            ends = self._range(close, volume)
            if ends is None:
                return np.zeros(bins)
            low, high = ends
            if low == high:  # as NumPy does
                low, high = low - 0.5, high + 0.5
            return self._volumes(close, volume, np.linspace(low, high, bins + 1))[0]
        except Exception as e:
            raise RuntimeError(f"VPOC calculation failed: {e}") from e
