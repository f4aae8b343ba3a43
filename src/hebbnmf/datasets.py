"""The data of the paper: three Gaussians, sparse sources, patches; and clusters that change."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, DTypeLike, NDArray
from PIL import Image
from scipy.io import loadmat
from sklearn.datasets import load_sample_images
from sklearn.utils import check_array, check_random_state

from hebbnmf.engine.state import FloatArray
from hebbnmf.parameters import COUNT, check_parameter, one_of

__all__ = [
    "THREE_GAUSSIANS_CENTERS",
    "extract_patches",
    "load_natural_images",
    "make_changing_clusters",
    "make_sparse_sources",
    "make_three_gaussians",
]

#: Centres of the clusters of `make_three_gaussians`.
THREE_GAUSSIANS_CENTERS = np.array([[-0.0985, -0.3379], [-0.6325, 0.9322], [1.1078, 1.0856]])
_THREE_GAUSSIANS_VARIANCE = 0.04
_PICTURE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff", ".webp")
_SEVERAL_BYTES_A_PIXEL = ("I", "F")  # Pillow's 16-bit and 32-bit modes, "I;16" among them.


def make_three_gaussians(
    n_samples: int = 300, *, random_state: int | np.random.RandomState | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Sample the three Gaussian clusters of section III.B, in random order.

    Parameters
    ----------
    n_samples : int, default=300
        Number of samples, divided as evenly as possible among the clusters.
    random_state : int, RandomState or None, default=None
        Seed of the samples and of their order.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)
        The cluster of each sample: 0, 1 or 2.

    Examples
    --------
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> X, y = make_three_gaussians(random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((300, 2), [0, 1, 2])
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % 3)
    noise = rng.standard_normal((n_samples, 2)) * np.sqrt(_THREE_GAUSSIANS_VARIANCE)
    return THREE_GAUSSIANS_CENTERS[y] + noise, y


def make_sparse_sources(
    n_samples: int,
    n_features: int,
    *,
    mixing: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> NDArray[np.float64]:
    """Sample the model of independent components, ``x = A s`` (Eq. 10), with Laplace sources.

    Parameters
    ----------
    n_samples : int
    n_features : int
        Number of sources, each of zero mean and unit variance, and of features.
    mixing : array-like of shape (n_features, n_features), default=None
        The matrix A, whose columns and their negatives are the sparse directions; a rotation in
        Fig. 5B. The identity where None, as in Fig. 5A.
    random_state : int, RandomState or None, default=None
        Seed of the sources, which do not depend on `mixing`.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.datasets import make_sparse_sources
    >>> s = make_sparse_sources(1000, 2, random_state=0)
    >>> x = make_sparse_sources(1000, 2, mixing=[[0, -1], [1, 0]], random_state=0)
    >>> bool(np.allclose(x[:, 0], -s[:, 1]))
    True
    """
    rng = check_random_state(random_state)
    # The variance of a Laplace variable is twice its squared scale.
    sources = rng.laplace(scale=np.sqrt(0.5), size=(n_samples, n_features))
    if mixing is None:
        return np.asarray(sources)
    A = check_array(mixing, dtype=np.float64)
    if A.shape != (n_features, n_features):
        raise ValueError(
            f"mixing has shape {A.shape}, but must be {(n_features, n_features)}: one row and one "
            "column for each of n_features."
        )
    return np.asarray(sources @ A.T)


def make_changing_clusters(
    n_samples: int,
    n_clusters: int = 5,
    n_features: int = 10,
    *,
    change: str = "move",
    period: int = 4000,
    radius: float = 6.0,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Sample a stream of Gaussian clusters that change as time goes by.

    At any time `n_clusters` are there, equally likely.

    Parameters
    ----------
    n_samples : int
    n_clusters : int, default=5
    n_features : int, default=10
    change : {"move", "replace", "turn over", "recur"}, default="move"
        What happens within a `period`: all clusters turn once around the origin, keeping their
        distances; at its end all are replaced; in its course one after the other is replaced; at
        its end all give way to a second set, and at the end of the next one return.
    period : int, default=4000
        Number of samples.
    radius : float, default=6.0
        Distance of the centres from the origin, in directions that are random but lie apart.
        Around them samples are normal, each feature with a standard deviation of 1.
    random_state : int, RandomState or None, default=None
        Seed of the centres and of the samples.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        The cluster of each sample; each that appears for the first time has the next number.

    Examples
    --------
    >>> from hebbnmf.datasets import make_changing_clusters
    >>> X, y = make_changing_clusters(300, 2, change="replace", period=100, random_state=0)
    >>> [sorted(set(part.tolist())) for part in (y[:100], y[100:200], y[200:])]
    [[0, 1], [2, 3], [4, 5]]
    """
    for name, count in (("n_clusters", n_clusters), ("period", period)):
        check_parameter(name, count, COUNT)
    check_parameter("change", change, one_of("move", "replace", "turn over", "recur"))
    rng = check_random_state(random_state)
    t = np.arange(n_samples)
    first = {
        "move": np.zeros_like(t),
        "replace": t // period * n_clusters,
        "turn over": t * n_clusters // period,
        "recur": t // period % 2 * n_clusters,
    }[change]  # the lowest number of the clusters that are there
    y = first + rng.randint(n_clusters, size=n_samples)
    n_all = first.max(initial=0) + n_clusters
    centers = radius * _spread_directions(n_all, n_clusters - 1, n_features, rng)
    X = centers[y]
    if change == "move":
        a, b = X[:, 0 : n_features - 1 : 2], X[:, 1::2]  # pairs of features: planes that turn
        cos, sin = (f(2 * np.pi * t[:, np.newaxis] / period) for f in (np.cos, np.sin))
        a[:], b[:] = cos * a - sin * b, sin * a + cos * b
    return X + rng.standard_normal((n_samples, n_features)), y


def load_natural_images(path: str | Path | None = None) -> list[NDArray[np.float32]]:
    """Load grey pictures, with pixels in 0..255.

    Parameters
    ----------
    path : str, Path or None, default=None
        Where the pictures are; the two photographs that scikit-learn carries where None.

        - a picture file, or a folder of them, read in the order of their names;
        - `.npy`: one picture (height x width) or a stack (n_images x height x width);
        - `.mat`: the stacks (height x width x n_images) of Olshausen & Field, ref. [21], in the
          variable `IMAGESr` (`IMAGES_RAW.mat`) or `IMAGES` (`IMAGES.mat`).

    Returns
    -------
    images : list of ndarray of shape (height, width)
        The pictures, in float32. Colours are turned to grey by their luma, unrounded.

    Notes
    -----
    `PatchNormalizer` adds ``eps=10`` to the variance of a patch, which is meant for pixels in
    0..255. So a stack or a 16-bit picture that leaves 0..255, or whose fractions lie in 0..1, is
    mapped onto 0..255 by one straight line for the *file*, which keeps relative contrast between
    the pictures of a stack. To keep other units, load the array yourself: `extract_patches` takes
    any.

    The pictures of `IMAGES.mat` are already whitened: they are returned unchanged, and need
    neither contrast normalisation nor whitening.

    Examples
    --------
    >>> from hebbnmf.datasets import load_natural_images
    >>> [image.shape for image in load_natural_images()]
    [(427, 640), (427, 640)]
    """
    if path is None:
        return [_grey(Image.fromarray(rgb)) for rgb in load_sample_images().images]
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"path={str(path)!r} does not exist: give a picture, a folder of pictures, a .npy or a "
            ".mat file, or None for the bundled photographs."
        )
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in _PICTURE_SUFFIXES)
        if not files:
            raise FileNotFoundError(
                f"path={str(path)!r} holds no picture: a folder must hold at least one file that "
                f"ends in {', '.join(_PICTURE_SUFFIXES)}."
            )
        return [_load_picture(file) for file in files]
    if path.suffix == ".npy":
        return _load_npy(path)
    return _load_olshausen(path) if path.suffix == ".mat" else [_load_picture(path)]


def extract_patches(
    images: Sequence[ArrayLike],
    n_patches: int,
    patch_size: int = 16,
    *,
    dtype: DTypeLike = np.float32,
    random_state: int | np.random.RandomState | None = None,
) -> FloatArray:
    """Cut square patches from pictures, at random.

    Every position of every picture is equally likely, and drawn with replacement: a large picture
    gives more patches than a small one.

    Parameters
    ----------
    images : sequence of array-like of shape (height, width)
        The pictures, of any sizes.
    n_patches : int
    patch_size : int, default=16
        Height and width of a patch, in pixels.
    dtype : dtype, default=numpy.float32
    random_state : int, RandomState or None, default=None
        Seed of the positions.

    Returns
    -------
    patches : ndarray of shape (n_patches, patch_size ** 2)
        One patch a row, its pixels row by row.

    Examples
    --------
    >>> from hebbnmf.datasets import extract_patches, load_natural_images
    >>> extract_patches(load_natural_images(), 100, random_state=0).shape
    (100, 256)
    """
    check_parameter("n_patches", n_patches, COUNT)
    check_parameter("patch_size", patch_size, COUNT)
    pictures = [_check_picture(image, f"images[{i}]") for i, image in enumerate(images)]
    if not pictures:
        raise ValueError("images is empty: give at least one picture to cut patches from.")
    for i, picture in enumerate(pictures):
        if min(picture.shape) < patch_size:
            raise ValueError(
                f"images[{i}] has shape {picture.shape}, but no side may be shorter than "
                f"patch_size={patch_size}: leave that picture out or choose smaller patches."
            )
    windows = [sliding_window_view(picture, (patch_size, patch_size)) for picture in pictures]
    n_positions = [window.shape[0] * window.shape[1] for window in windows]
    ends = np.cumsum(n_positions)
    position = check_random_state(random_state).randint(ends[-1], size=n_patches, dtype=np.int64)
    source = np.searchsorted(ends, position, side="right")

    patches = np.empty((n_patches, patch_size**2), dtype=dtype)
    for i, window in enumerate(windows):
        chosen = np.flatnonzero(source == i)
        rows, columns = np.divmod(position[chosen] - (ends[i] - n_positions[i]), window.shape[1])
        patches[chosen] = window[rows, columns].reshape(-1, patch_size**2)
    return patches


def _spread_directions(
    n: int, n_apart: int, n_features: int, rng: np.random.RandomState
) -> NDArray[np.float64]:
    """Draw unit vectors, each of 20 the farthest from the `n_apart` before it."""
    directions = np.empty((n, n_features))
    for i in range(n):
        drawn = rng.standard_normal((20, n_features))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        cosines = drawn @ directions[max(0, i - n_apart) : i].T
        directions[i] = drawn[cosines.max(axis=1, initial=-1.0).argmin()]
    return directions


def _grey(picture: Image.Image) -> NDArray[np.float32]:
    # By way of RGB, since Pillow cannot convert palettes and CMYK to floating point directly.
    return np.array(picture.convert("RGB").convert("F"))


def _check_picture(image: ArrayLike, name: str) -> NDArray[np.generic]:
    picture = np.asarray(image)
    if picture.ndim != 2 or picture.size == 0 or picture.dtype.kind not in "buif":
        raise ValueError(
            f"{name} has shape {picture.shape} and type {picture.dtype}, but a picture must be a "
            "non-empty 2-D array of real numbers: give grey pictures, as a list or a 3-D stack."
        )
    n_bad = picture.size - np.count_nonzero(np.isfinite(picture))
    if n_bad:
        raise ValueError(
            f"{name} has {n_bad} pixels that are NaN or infinite, but pixels must be finite: crop "
            "or fill them first."
        )
    return picture


@contextmanager
def _reading(path: Path, kind: str, remedy: str) -> Iterator[None]:
    """Raise one error for a damaged file: libraries raise a dozen types, zlib.error among them."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"path={str(path)!r} cannot be read as {kind} ({error}): {remedy}."
        ) from error


def _load_picture(path: Path) -> NDArray[np.float32]:
    remedy = "the file must be whole and of a format that Pillow knows; convert or remove it"
    with _reading(path, "a picture", remedy), Image.open(path) as picture:
        deep = picture.mode.startswith(_SEVERAL_BYTES_A_PIXEL)
        pixels = np.asarray(picture) if deep else _grey(picture)
    return _split(pixels[np.newaxis], path, rescale=deep)[0]


def _load_npy(path: Path) -> list[NDArray[np.float32]]:
    with _reading(path, "an array", "write it with numpy.save, from plain numbers"):
        stack = np.load(path, allow_pickle=False)
    if stack.ndim not in (2, 3):
        raise ValueError(
            f"path={str(path)!r} holds an array of shape {stack.shape}, but must hold one picture "
            "(height x width) or a stack (n_images x height x width)."
        )
    return _split(stack if stack.ndim == 3 else stack[np.newaxis], path, rescale=True)


def _load_olshausen(path: Path) -> list[NDArray[np.float32]]:
    with _reading(path, "a MATLAB file", "fetch it again, or save it in a format before 7.3"):
        variables = loadmat(path)
    for name, rescale in (("IMAGESr", True), ("IMAGES", False)):
        if name in variables:
            return _split(np.moveaxis(np.atleast_3d(variables[name]), -1, 0), path, rescale)
    found = ", ".join(sorted(name for name in variables if not name.startswith("__"))) or "nothing"
    raise ValueError(
        f"path={str(path)!r} holds the variables: {found}; one must be named IMAGESr (raw) or "
        "IMAGES (whitened)."
    )


def _split(pixels: NDArray[Any], path: Path, rescale: bool) -> list[NDArray[np.float32]]:
    """Check a stack of pictures, and map it onto 0..255 where its units are others."""
    if len(pixels) == 0:
        raise ValueError(f"path={str(path)!r} holds no pictures, but must hold at least one.")
    for i, picture in enumerate(pixels):
        _check_picture(picture, f"picture {i} of path={str(path)!r}")
    lowest, highest = float(pixels.min()), float(pixels.max())
    are_fractions = pixels.dtype.kind == "f" and highest <= 1
    if rescale and (lowest < 0 or highest > 255 or are_fractions):
        span = highest - lowest or 1.0  # one grey becomes zero
        pixels = (pixels.astype(np.float64) - lowest) * (255 / span)
    # Make pictures contiguous: in Olshausen & Field's layout neighbouring pixels lie far apart.
    return list(np.ascontiguousarray(pixels, dtype=np.float32))
