"""Gabor functions fitted to filters (Fig. 4A)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from hebbnmf.engine.state import FloatArray

__all__ = ["GaborFits", "filter_sides", "fit_gabors"]

# A Gabor function's envelope spans three pixels at half height: 2.355 * 1.25. A standard deviation
# of 1.1 would explain half the variance of a single bright pixel.
_MIN_SIGMA = 1.25
_START_SIGMAS = (0.1, 0.15, 0.25)  # shares of the patch's side
_N_STEPS = 60
_FILTERS_AT_ONCE = 32  # few enough for the cache


class GaborFits(NamedTuple):
    """The Gabor functions nearest to a set of filters, one entry a filter.

    A filter is ``exp(-u^2 / (2 width^2) - v^2 / (2 length^2)) cos(2 pi frequency u + phase)``
    times an amplitude, plus a constant, where v runs along the stripes and u across them, in the
    direction `orientation` + pi/2, both from the centre (x, y).
    """

    x: FloatArray  # column of the centre, in pixels; 0 is the middle of the first column
    y: FloatArray  # row of the centre, in pixels, downwards
    orientation: FloatArray  # of the stripes, in 0..pi, from the x axis towards the y axis
    frequency: FloatArray  # in cycles per pixel
    bandwidth: FloatArray  # full width at half height in octaves; infinite where low-pass
    phase: FloatArray  # of the carrier at the centre, in -pi..pi; 0 and pi even, +-pi/2 odd
    width: FloatArray  # standard deviation of the envelope across the stripes, in pixels
    length: FloatArray  # standard deviation of the envelope along the stripes, in pixels
    explained: FloatArray  # share of the filter's variance over pixels, in 0..1

    @property
    def aspect_ratio(self) -> FloatArray:
        """Length of the envelope over its width."""
        return self.length / self.width


def fit_gabors(filters: ArrayLike, patch_shape: tuple[int, int] | None = None) -> GaborFits:
    """Fit a Gabor function to each filter, as is done for simple cells of V1 (ref. [28]).

    Parameters
    ----------
    filters : array-like of shape (n_filters, n_pixels)
        The filters, each row by row; their scale and mean do not matter.
    patch_shape : tuple of int, optional
        Height and width of a filter; square where None.

    Returns
    -------
    GaborFits
        A constant filter has ``explained=0`` and the other fields NaN.

    Notes
    -----
    Amplitude and phase are the coefficients of a cosine and a sine: a linear problem. The other
    parameters are searched over a coarse grid of three scales; the best of each is refined by
    damped Gauss-Newton steps (variable projection, Golub & Pereyra 1973, in Kaufman's form).

    The centre lies a pixel or more inside the patch, the deviations of the envelope between 1.25
    pixels and half the patch, the frequency between one cycle per patch and 0.5 per pixel. Eight
    free parameters explain about a twelfth of the variance of white noise of 16 x 16 pixels, but a
    quarter of 8 x 8: compare `explained` between patches of one size only. Smooth noise has few
    degrees of freedom at any size: fit filters that act on images (`image_filters`), not patches.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.metrics import fit_gabors
    >>> y, x = np.mgrid[:16, :16]
    >>> bars = np.exp(-((x - 6) ** 2 + (y - 9) ** 2) / 12.5) * np.cos(0.4 * np.pi * (x - 6))
    >>> fits = fit_gabors(bars.reshape(1, -1))
    >>> fits.frequency.round(3), fits.x.round(3), fits.explained.round(3)
    (array([0.2]), array([6.]), array([1.]))
    """
    F = check_array(filters, dtype=np.float64, ensure_min_samples=0)
    height, width = filter_sides(F.shape[1], patch_shape, smallest=5)
    F = F / np.maximum(np.abs(F).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    F -= F.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(F, axis=1)
    with_contrast = np.flatnonzero(norms > 1e-10)

    grid = np.mgrid[:height, :width].reshape(2, -1)[::-1].astype(np.float64)
    side = max(height, width)
    # The centre is a pixel or more from the border: else an envelope could fit a single pixel.
    low = np.array([1, 1, -np.inf, 1 / side, _MIN_SIGMA, _MIN_SIGMA])
    high = np.array([width - 2, height - 2, np.inf, 0.5, side / 2, side / 2])
    scales = [_coarse_search(height, width, sigma) for sigma in _START_SIGMAS]
    bases = [_orthonormalise(*_gabor_pair(params, grid)[:2]) for params in scales]
    table = np.full((len(F), 9), np.nan)
    table[:, -1] = 0.0
    for first in range(0, len(with_contrast), _FILTERS_AT_ONCE):
        rows = with_contrast[first : first + _FILTERS_AT_ONCE]
        f = F[rows] / norms[rows, np.newaxis]
        starts = [
            params[np.argmax((f @ q.first.T) ** 2 + (f @ q.second.T) ** 2, axis=1)]
            for params, q in zip(scales, bases, strict=True)
        ]
        table[rows] = _refine(f, np.stack(starts), grid, low, high)
    return _describe(table)


def filter_sides(
    n_pixels: int, patch_shape: tuple[int, int] | None, smallest: int = 1
) -> tuple[int, int]:
    """Return the height and width of a filter, square where None, or raise ValueError."""
    side = round(n_pixels**0.5)
    height, width = patch_shape or (side, side)
    if height * width != n_pixels or min(height, width) < smallest:
        raise ValueError(
            f"patch_shape={patch_shape!r} does not suit filters of {n_pixels} pixels: height times "
            f"width must be that number, and each at least {smallest}; give (height, width)."
        )
    return height, width


def _coarse_search(height: int, width: int, sigma: float) -> FloatArray:
    side = max(height, width)
    axes = (
        np.linspace(1, width - 2, 7),
        np.linspace(1, height - 2, 7),
        np.linspace(0, np.pi, 8, endpoint=False),
        np.geomspace(1 / side, 0.4, 5),
        [max(sigma * side, _MIN_SIGMA)],
    )
    params = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 5)
    return np.hstack([params, params[:, -1:]])


class _Basis(NamedTuple):
    """An orthonormal basis of the pair ``E cos``, ``E sin``, made orthogonal to constants."""

    first: FloatArray
    second: FloatArray
    first_norm: FloatArray
    second_norm: FloatArray
    overlap: FloatArray


def _gabor_pair(params: FloatArray, grid: FloatArray) -> tuple[FloatArray, ...]:
    """Return the pair and the coordinates u, v, one row a set of parameters."""
    x, y, direction, frequency, width, length = params.T[:, :, np.newaxis]
    cos, sin = np.cos(direction), np.sin(direction)
    u = cos * (grid[0] - x) + sin * (grid[1] - y)
    v = cos * (grid[1] - y) - sin * (grid[0] - x)
    envelope = np.exp(-0.5 * ((u / width) ** 2 + (v / length) ** 2))
    angle = 2 * np.pi * frequency * u
    return envelope * np.cos(angle), envelope * np.sin(angle), u, v


def _orthonormalise(even: FloatArray, odd: FloatArray) -> _Basis:
    first = even - even.mean(axis=1, keepdims=True)
    odd = odd - odd.mean(axis=1, keepdims=True)
    # At the highest frequency one of the pair can vanish: the floor avoids a division by zero.
    first_norm = np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-6)
    first /= first_norm
    overlap = np.sum(first * odd, axis=1, keepdims=True)
    second = odd - overlap * first
    second_norm = np.maximum(np.linalg.norm(second, axis=1, keepdims=True), 1e-6)
    return _Basis(first, second / second_norm, first_norm, second_norm, overlap)


def _linearise(params: FloatArray, F: FloatArray, grid: FloatArray) -> tuple[FloatArray, ...]:
    """Return coefficients of the pair, share explained, half its gradient and half its Hessian."""
    even, odd, u, v = _gabor_pair(params, grid)
    basis = _orthonormalise(even, odd)
    on_first = np.sum(basis.first * F, axis=1, keepdims=True)
    on_second = np.sum(basis.second * F, axis=1, keepdims=True)
    b = on_second / basis.second_norm
    a = (on_first - basis.overlap * b) / basis.first_norm
    residual = F - on_first * basis.first - on_second * basis.second

    direction, frequency, width, length = params.T[2:, :, np.newaxis]
    cos, sin = np.cos(direction), np.sin(direction)
    model = a * even + b * odd
    carrier_slope = 2 * np.pi * (b * even - a * odd)
    by_u = frequency * carrier_slope - model * u / width**2
    by_v = -model * v / length**2
    J = np.stack(
        [
            sin * by_v - cos * by_u,
            -sin * by_u - cos * by_v,
            v * by_u - u * by_v,
            u * carrier_slope,
            model * u**2 / width**3,
            model * v**2 / length**3,
        ],
        axis=1,
    )
    gradient = np.einsum("nip,np->ni", J, residual)
    # Kaufman: drop the part of J that a change of the linear coefficients compensates.
    J -= J.mean(axis=2, keepdims=True)
    for q in (basis.first, basis.second):
        J -= np.einsum("nip,np->ni", J, q)[:, :, np.newaxis] * q[:, np.newaxis]
    explained = (on_first**2 + on_second**2)[:, 0]
    return np.hstack([a, b]), explained, gradient, J @ J.transpose(0, 2, 1)


def _refine(
    F: FloatArray, starts: FloatArray, grid: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Improve each start by Levenberg-Marquardt steps; return each filter's best fit."""
    n_starts, n_filters, n_params = starts.shape
    F = np.tile(F, (n_starts, 1))
    params = np.clip(starts.reshape(-1, n_params), low, high)
    coefs, explained, gradient, hessian = _linearise(params, F, grid)
    damping = np.full(len(F), 0.01)
    unfinished = np.arange(len(F))
    for _ in range(_N_STEPS):
        g, H, p = gradient[unfinished], hessian[unfinished], params[unfinished]
        # A parameter at its bound stays there if the gradient points outwards.
        free = ~(((p <= low) & (g < 0)) | ((p >= high) & (g > 0)))
        H = H * (free[:, :, np.newaxis] & free[:, np.newaxis])
        diagonal = np.einsum("nii->ni", H)
        diagonal *= 1 + damping[unfinished, np.newaxis]
        diagonal += 1e-9
        trial = np.clip(p + np.linalg.solve(H, (g * free)[..., np.newaxis])[..., 0], low, high)
        refit = _linearise(trial, F[unfinished], grid)
        gain = refit[1] - explained[unfinished]
        better = gain > 0
        to = unfinished[better]
        params[to] = trial[better]
        for kept, new in zip((coefs, explained, gradient, hessian), refit, strict=True):
            kept[to] = new[better]
        damping[unfinished] *= np.where(better, 0.2, 5.0)
        unfinished = unfinished[~((better & (gain < 1e-8)) | (damping[unfinished] > 1e6))]
        if unfinished.size == 0:
            break
    table = np.column_stack([params, coefs, explained]).reshape(n_starts, n_filters, -1)
    return np.asarray(table[np.argmax(table[..., -1], axis=0), np.arange(n_filters)])


def _describe(table: FloatArray) -> GaborFits:
    x, y, direction, frequency, width, length, a, b, explained = table.T
    orientation = np.mod(direction - np.pi / 2, np.pi)
    # Where the direction was reversed, u changes its sign, and so does the sine.
    b = np.where(np.cos(direction - np.pi / 2 - orientation) < 0, -b, b)
    # Half the width at half height of a Gaussian tuning curve of deviation 1 / (2 pi width).
    half = np.sqrt(2 * np.log(2)) / (2 * np.pi * width)
    ratio = np.divide(
        frequency + half, frequency - half, out=np.full_like(half, np.inf), where=frequency > half
    )
    bandwidth = np.where(np.isnan(width), np.nan, np.log2(ratio))
    phase = np.arctan2(-b, a)
    return GaborFits(x, y, orientation, frequency, bandwidth, phase, width, length, explained)
