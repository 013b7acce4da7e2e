"""Names for what sizes of layers may be, as torch.nn.common_types has them: for annotations."""

from .._C import Tensor  # noqa: F401

_scalar_or_tuple_any_t = int | tuple[int, ...]
_size_any_t = int | tuple[int, ...]
_size_any_opt_t = int | None | tuple[int | None, ...]
_ratio_any_t = float | tuple[float, ...]
for _n in range(1, 7):
    globals()[f"_scalar_or_tuple_{_n}_t"] = int | tuple[(int,) * _n]
    globals()[f"_size_{_n}_t"] = int | tuple[(int,) * _n]
for _n in (2, 3):
    globals()[f"_size_{_n}_opt_t"] = int | None | tuple[(int | None,) * _n]
    globals()[f"_ratio_{_n}_t"] = float | tuple[(float,) * _n]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
