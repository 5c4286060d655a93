# Soft-DTW of NumPy arrays: values, gradients, tangents, alignments and all pairs, on the CPU.
"""Soft-DTW, its gradients, directional derivatives and expected alignments for NumPy arrays.

A series is an array of shape (N, D), N time steps of D features, or (N,) for D = 1; a batch is (B, N, D).
With ``metric="precomputed"`` x is the cost matrix, (N, M) or (B, N, M), and there is no y. Where x and y hold
different numbers of series, one of them must hold a single one: it is paired with every series of the other.

A list of arrays (N_b, D), or (N_b,), is a batch of series of those lengths, as :func:`pad` makes it, and a
masked array one whose masked time steps, at the ends of series, are padding: gradients have the batch's
shape, with 0 in the padding. Of series that end in NaN :func:`to_lengths` tells the lengths; NaN that are not
told so make a pair's value NaN.

float16, float32 and float64 arrays (and ml_dtypes' bfloat16) in the machine's byte order are read in place,
at any strides, and never written. Integers are converted to float64, arrays of two types to the one that
holds both, arrays in the other byte order to native ones. Gradients have that type, values too but for
float32 values of 16-bit types.

The recurrence is that of Cuturi and Blondel, Soft-DTW: a Differentiable Loss Function for Time-Series, ICML
2017. Every function takes the options of :func:`soft_dtw`, in any combination, but for the divergence,
normalize: it has values and gradients, of pairs and of all pairs, but no alignment and no soft_dtw_jvp.
"""

from ._arrays import NUMPY, to_lengths
from ._functions import Functions

__all__ = [
    "dtw_path",
    "pad",
    "soft_dtw",
    "soft_dtw_alignment",
    "soft_dtw_cdist",
    "soft_dtw_cdist_grad",
    "soft_dtw_grad",
    "soft_dtw_jvp",
    "to_lengths",
]

_functions = Functions(NUMPY)
dtw_path = _functions.dtw_path
pad = _functions.pad
soft_dtw = _functions.soft_dtw
soft_dtw_alignment = _functions.soft_dtw_alignment
soft_dtw_cdist = _functions.soft_dtw_cdist
soft_dtw_cdist_grad = _functions.soft_dtw_cdist_grad
soft_dtw_grad = _functions.soft_dtw_grad
soft_dtw_jvp = _functions.soft_dtw_jvp
