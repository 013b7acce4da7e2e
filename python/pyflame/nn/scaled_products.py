"""Products of scaled eight-bit floats, by the name that PyTorch has for them in nn.functional."""

import enum

from .. import _C


class ScalingType(enum.Enum):
    """How the scales of a matrix belong to its elements. PyFlame multiplies by the first two."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """How scales of blocks lie in memory. PyFlame takes those that are not swizzled."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _one(value, name):
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != 1:
        raise _C.NotSupportedError(
            f"scaled_mm: got {len(value)} of {name}; expected one: scales of several levels belong "
            "to float4, which PyFlame has no products of"
        )
    return value[0]


def scaled_mm(
    mat_a,
    mat_b,
    scale_a,
    scale_recipe_a,
    scale_b,
    scale_recipe_b,
    swizzle_a=None,
    swizzle_b=None,
    bias=None,
    output_dtype=_C.bfloat16,
    contraction_dim=(),
    use_fast_accum=False,
):
    """mat_a @ mat_b of eight-bit floats, times what they were scaled by, plus bias.

    mat_a [m, k] has dense rows and mat_b [k, n] dense columns (`.t()` of a contiguous matrix), both
    float8_e4m3fn or one of them float8_e5m2. Scales are float32, both of them one number
    (`ScalingType.TensorWise`), or m and n numbers (`RowWise`); recipes of blocks raise
    NotSupportedError. bias [n] has the result's dtype. Sums are float32 and rounded once.
    """
    recipes = []
    for recipe, swizzle in ((scale_recipe_a, swizzle_a), (scale_recipe_b, swizzle_b)):
        recipe, swizzle = _one(recipe, "scale_recipe"), _one(swizzle, "swizzle")
        if not isinstance(recipe, ScalingType):
            raise TypeError(
                f"scaled_mm: got scale_recipe {recipe!r}; expected a member of "
                "nn.functional.ScalingType"
            )
        if recipe not in (ScalingType.TensorWise, ScalingType.RowWise):
            raise _C.NotSupportedError(
                f"scaled_mm: got ScalingType.{recipe.name}; expected TensorWise or RowWise; "
                "multiply blocks one by one with their scales"
            )
        if swizzle not in (None, SwizzleType.NO_SWIZZLE):
            raise _C.NotSupportedError(
                f"scaled_mm: got {swizzle}; expected scales that are not swizzled; pass None"
            )
        recipes.append(recipe)
    if recipes[0] is not recipes[1]:
        raise _C.ValueError(
            f"scaled_mm: got recipes {recipes[0].name} and {recipes[1].name}; expected the same for "
            "both matrices; expand the single number to rows"
        )
    dims = tuple(contraction_dim)
    if dims and not (len(dims) == 2 and dims[0] in (1, -1) and dims[1] in (0, -2)):
        raise _C.ValueError(
            f"scaled_mm: got contraction_dim {dims}; expected () or (1, 0); transpose a matrix"
        )
    scale_a, scale_b = _one(scale_a, "scale_a"), _one(scale_b, "scale_b")
    if recipes[0] is ScalingType.RowWise:
        shapes = ((mat_a.shape[0], 1), (1, mat_b.shape[-1]))
    else:
        shapes = ((), ())
    for scale, shape in zip((scale_a, scale_b), shapes, strict=True):
        expected = shape[0] * shape[1] if shape else 1
        if scale.numel() != expected:
            raise _C.ShapeError(
                f"scaled_mm: got {scale.numel()} scales; expected {expected} for "
                f"ScalingType.{recipes[0].name}"
            )
    return _C._functions["_scaled_mm"](
        mat_a,
        mat_b,
        scale_a.reshape(shapes[0]),
        scale_b.reshape(shapes[1]),
        bias,
        None,
        output_dtype,
        use_fast_accum,
    )
