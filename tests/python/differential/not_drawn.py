"""Registered names that are not drawn, and those that are compared elsewhere."""

# Why they are not.
NOT_DRAWN = {
    **dict.fromkeys(
        (
            *("batch_matmul", "int_mm", "expit", "expit_", "bce_loss", "vecdot"),
            *("relu6_", "silu_", "mish_", "softplus_", "softsign_", "hardswish_", "hardsigmoid_"),
            *("logsigmoid_", "tanhshrink_", "softshrink_", "hardshrink_", "gelu_", "maximum_"),
            *("minimum_", "fmax_", "fmin_", "logaddexp_", "logaddexp2_", "flash_attention"),
        ),
        "PyTorch has no such name",
    ),
    **dict.fromkeys(
        (
            *("_zeros_beside", "_multi_norm", "_found_nonfinite", "_warmup_cosine", "_binned_sums"),
            *("_to_float8", "_scored_attention"),
        ),
        "internal: part of what is written in Python",
    ),
    **dict.fromkeys(
        ("_sgd", "_adamw", "_optim_step", "_clip_grad_norm_", "_clip_grad_value_"),
        "internal: behind pf.optim and nn.utils, tested there",
    ),
    **dict.fromkeys(
        ("ctc_losses", "embedding_bag"), "internal: behind nn.functional, see test_nn_rest.py"
    ),
    **dict.fromkeys(("numpy_T", "matrix_T"), "internal: the attributes T, mT"),
    **dict.fromkeys(("index", "slice"), "internal: x[...], see test_indexing_python.py"),
    "pad_sequence": "PyTorch has it in nn.utils.rnn: test_data.py",
    "tensordot": "internal: pf.tensordot is written in Python",
}
NOT_DRAWN |= dict.fromkeys(
    (
        *("max_pool2d_with_indices", "adaptive_max_pool2d", "adaptive_avg_pool2d", "avg_pool2d"),
        *("max_pool3d_with_indices", "adaptive_max_pool3d", "adaptive_avg_pool3d", "avg_pool3d"),
        *("grid_sampler", "affine_grid_generator", "im2col", "col2im"),
    ),
    "internal: behind nn.functional, see test_pooling.py and test_resampling.py",
)
_INIT = "internal: behind nn.init, random"
NOT_DRAWN |= {
    f"_init_{n}": _INIT
    for n in (
        *("uniform_", "normal_", "trunc_normal_", "constant_", "eye_", "xavier_uniform_"),
        *("xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_"),
        *("dirac_", "calculate_gain", "linear_", "embedding_"),
    )
}


# Names of PyTorch that drawn numbers say little about, and where they are compared.
ELSEWHERE = {
    **dict.fromkeys(
        (
            *("cholesky", "linalg_cholesky", "linalg_cholesky_ex", "cholesky_solve"),
            *("cholesky_inverse", "geqrf", "orgqr", "ormqr", "linalg_householder_product"),
            *(
                "qr",
                "linalg_qr",
                "svd",
                "linalg_svd",
                "linalg_eig",
                "linalg_eigvals",
                "linalg_eigh",
            ),
            *(
                "lu",
                "linalg_lu",
                "linalg_lu_factor",
                "linalg_lu_factor_ex",
                "lu_unpack",
                "lu_solve",
            ),
            *("linalg_lu_solve", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve"),
            *("linalg_lstsq",),
        ),
        "factors are determined up to signs and orders, or of definite matrices: test_linalg.py",
    ),
    **dict.fromkeys(("resize_", "resize_as_"), "new elements have any value: test_special.py"),
    "histogram": "edges must ascend: test_special.py",
    "complex": "PyTorch makes complex32 of halves, which is not here: test_complex.py",
}
NOT_DRAWN |= dict.fromkeys(
    (
        *(f"fft_{n}fft{d}" for n in ("", "i", "r", "ir", "h", "ih") for d in ("", "2", "n")),
        *("fft_fftfreq", "fft_rfftfreq", "fft_fftshift", "fft_ifftshift"),
    ),
    "in torch.fft: test_fft.py",
)
NOT_DRAWN |= dict.fromkeys(
    (
        *(f"special_bessel_{n}" for n in ("j0", "j1", "y0", "y1")),
        *(f"special_modified_bessel_{n}" for n in ("i0", "i1", "k0", "k1")),
        *("special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"),
        *(f"special_{n}" for n in ("i0e", "i1", "i1e", "spherical_bessel_j0", "airy_ai", "erfcx")),
        *(f"special_{n}" for n in ("ndtr", "ndtri", "log_ndtr", "entr", "zeta", "xlog1py")),
        *(f"special_{s}chebyshev_polynomial_{k}" for s in ("", "shifted_") for k in "tuvw"),
        *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
        *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
    ),
    "in torch.special: test_special.py",
)
NOT_DRAWN |= dict.fromkeys(
    ("gradient", "gradient_at", "histogramdd", "histogramdd_at"),
    "internal: behind functions in Python, see test_special.py",
)
