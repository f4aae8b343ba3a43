import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from hebbnmf.datasets import (
    extract_patches,
    load_natural_images,
    make_changing_clusters,
    make_sparse_sources,
    make_three_gaussians,
)


def pixels(height=20, width=30, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)


def test_three_gaussians_lie_around_their_centers():
    X, y = make_three_gaussians(3001, random_state=0)
    assert np.bincount(y).tolist() == [1001, 1000, 1000]
    center = X[y == 1].mean(axis=0)
    np.testing.assert_allclose(center, [-0.6325, 0.9322], atol=5 * 0.2 / np.sqrt(1000))
    np.testing.assert_allclose(X[y == 1].var(axis=0), 0.04, rtol=0.2)


def test_sparse_sources_are_independent_laplace_of_unit_variance():
    S = make_sparse_sources(50_000, 3, random_state=0)
    np.testing.assert_allclose(np.cov(S.T), np.eye(3), atol=0.05)
    # A Laplace variable has excess kurtosis 3, a Gaussian one 0.
    np.testing.assert_allclose((S**4).mean(axis=0) / (S**2).mean(axis=0) ** 2 - 3, 3, atol=0.7)
    np.testing.assert_allclose(np.cov(S.T**2) * (1 - np.eye(3)), 0.0, atol=0.15)


def test_mixing_acts_on_each_sample():
    A = np.random.default_rng(1).standard_normal((3, 3))
    S = make_sparse_sources(10, 3, random_state=0)
    X = make_sparse_sources(10, 3, mixing=A, random_state=0)
    np.testing.assert_allclose(X, [A @ s for s in S])


def test_mixing_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"mixing has shape \(2, 3\), but must be \(3, 3\)"):
        make_sparse_sources(10, 3, mixing=np.ones((2, 3)))


@pytest.mark.parametrize(
    ("change", "clusters"),
    [
        ("move", [{0, 1}] * 4),
        ("replace", [{0, 1}, {2, 3}, {4, 5}, {6, 7}]),
        ("recur", [{0, 1}, {2, 3}, {0, 1}, {2, 3}]),
    ],
)
def test_clusters_change_from_period_to_period(change, clusters):
    _, y = make_changing_clusters(400, 2, change=change, period=100, random_state=0)
    assert [set(part.tolist()) for part in np.split(y, 4)] == clusters


def test_clusters_turn_over_one_by_one():
    _, y = make_changing_clusters(400, 2, change="turn over", period=200, random_state=0)
    parts = [set(part.tolist()) for part in np.split(y, 4)]
    assert parts == [{0, 1}, {1, 2}, {2, 3}, {3, 4}]


def test_changing_clusters_keep_their_centers_unless_they_move():
    X, y = make_changing_clusters(9000, 3, 4, change="recur", period=1500, random_state=0)
    early, late = (X[part][y[part] == 1] for part in (slice(1500), slice(6000, 7500)))
    np.testing.assert_allclose(early.mean(axis=0), late.mean(axis=0), atol=5 * np.sqrt(2 / 500))
    np.testing.assert_allclose(early.var(axis=0), 1.0, rtol=0.3)


def test_moving_clusters_turn_around_the_origin_and_keep_their_distances():
    X, y = make_changing_clusters(8000, 2, 4, period=4000, radius=1000.0, random_state=0)
    np.testing.assert_allclose(X[2000:4000][y[2000:4000] == 0].mean(axis=0), [0] * 4, atol=700)
    for start in (0, 700):
        now, opposite, back = (X[t : t + 20] for t in (start, start + 2000, start + 4000))
        of_now, of_opposite, of_back = (y[t : t + 20] for t in (start, start + 2000, start + 4000))
        for k in (0, 1):
            center = now[of_now == k].mean(axis=0)
            np.testing.assert_allclose(opposite[of_opposite == k].mean(axis=0), -center, atol=25)
            np.testing.assert_allclose(back[of_back == k].mean(axis=0), center, atol=25)
    distances = [
        np.linalg.norm(X[t][y[t] == 0].mean(axis=0) - X[t][y[t] == 1].mean(axis=0))
        for t in (slice(0, 10), slice(900, 910))
    ]
    assert distances[0] == pytest.approx(distances[1], rel=0.02)


@pytest.mark.parametrize(
    ("name", "value"), [("change", "jump"), ("period", 0), ("n_clusters", 2.5)]
)
def test_a_change_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} cannot be used"):
        make_changing_clusters(10, **{name: value})


def test_bundled_photographs_are_grey_pixels():
    images = load_natural_images()
    assert len(images) == 2
    for image in images:
        assert image.ndim == 2
        assert image.dtype == np.float32
        assert 0 <= image.min() < 50
        assert 200 < image.max() <= 255


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".pgm"])
def test_a_grey_picture_comes_back_pixel_by_pixel(tmp_path, suffix):
    path = tmp_path / f"one{suffix}"
    Image.fromarray(pixels()).save(path)
    (image,) = load_natural_images(path)
    np.testing.assert_allclose(image, pixels(), atol=1e-4)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "CMYK", "P"])
def test_colours_become_luma(tmp_path, mode):
    flat = Image.new("RGB", (4, 3), (200, 100, 50))
    path = tmp_path / "flat.tif"
    (flat.convert(mode) if mode != "P" else flat.quantize(2)).save(path)
    (image,) = load_natural_images(str(path))
    assert image.shape == (3, 4)
    np.testing.assert_allclose(image, 0.299 * 200 + 0.587 * 100 + 0.114 * 50, atol=1.0)


def test_a_folder_is_read_by_name_and_other_files_are_left(tmp_path):
    for name, seed in (("b.png", 1), ("a.PNG", 0)):
        Image.fromarray(pixels(seed=seed)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("none")
    images = load_natural_images(tmp_path)
    assert len(images) == 2
    np.testing.assert_allclose(images[0], pixels(seed=0), atol=1e-4)
    np.testing.assert_allclose(images[1], pixels(seed=1), atol=1e-4)


@pytest.mark.parametrize("shape", [(20, 30), (3, 20, 30)])
def test_npy_holds_one_picture_or_a_stack(tmp_path, shape):
    stack = np.random.default_rng(0).integers(0, 256, shape)
    np.save(tmp_path / "stack.npy", stack)
    images = load_natural_images(tmp_path / "stack.npy")
    np.testing.assert_array_equal(np.array(images), stack.reshape(-1, 20, 30))


@pytest.mark.parametrize(("scale", "shift"), [(1 / 255, 0), (1e-3, -0.1), (257, 0), (3.0, -900.0)])
def test_other_ranges_are_stretched_to_pixels_by_one_line_per_file(tmp_path, scale, shift):
    stack = np.stack([pixels(seed=0), pixels(seed=1)]).astype(float)
    stack[0, 0, 0], stack[1, 0, 0] = 0, 255
    np.save(tmp_path / "stack.npy", stack * scale + shift)
    savemat(tmp_path / "raw.mat", {"IMAGESr": np.moveaxis(stack * scale + shift, 0, -1)})
    for name in ("stack.npy", "raw.mat"):
        np.testing.assert_allclose(load_natural_images(tmp_path / name), stack, atol=1e-3)


def test_a_16_bit_picture_is_stretched(tmp_path):
    deep = pixels().astype(np.uint16) * 257
    deep[0, :2] = 0, 65535
    Image.fromarray(deep).save(tmp_path / "deep.png")
    (image,) = load_natural_images(tmp_path / "deep.png")
    np.testing.assert_allclose(image, deep / 257, atol=1e-3)


def test_flat_stack_out_of_range_becomes_black(tmp_path):
    np.save(tmp_path / "flat.npy", np.full((4, 4), 300.0))
    np.testing.assert_array_equal(load_natural_images(tmp_path / "flat.npy")[0], 0.0)


def test_whitened_olshausen_images_come_as_they_are(tmp_path):
    stack = np.random.default_rng(0).standard_normal((12, 14, 3))
    savemat(tmp_path / "IMAGES.mat", {"IMAGES": stack})
    images = load_natural_images(tmp_path / "IMAGES.mat")
    assert len(images) == 3
    np.testing.assert_array_equal(images[1], stack[:, :, 1].astype(np.float32))
    assert images[1].flags.c_contiguous


def test_missing_and_empty_places_are_reported(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path=.*nowhere' does not exist: give"):
        load_natural_images(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no picture"):
        load_natural_images(tmp_path)


@pytest.mark.parametrize("name", ["broken.png", "broken.npy", "broken.mat", "unknown.xyz"])
@pytest.mark.parametrize("content", [b"", b"not a picture" * 20])
def test_broken_files_are_reported_by_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"path=.*{name}' cannot be read as"):
        load_natural_images(tmp_path / name)


def test_truncated_files_are_reported(tmp_path):
    Image.fromarray(pixels(200, 200)).save(tmp_path / "cut.png")
    np.save(tmp_path / "cut.npy", pixels(200, 200))
    savemat(tmp_path / "cut.mat", {"IMAGESr": pixels(200, 200)}, do_compression=True)
    for name in ("cut.png", "cut.npy", "cut.mat"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=f"path=.*{name}' cannot be read as"):
            load_natural_images(tmp_path / name)


def test_unknown_variables_are_named(tmp_path):
    savemat(tmp_path / "other.mat", {"PATCHES": np.eye(3)})
    with pytest.raises(ValueError, match="variables: PATCHES; one must be named IMAGESr"):
        load_natural_images(tmp_path / "other.mat")


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        (np.ones(5), r"array of shape \(5,\)"),
        (np.ones((2, 3, 4, 5)), "must hold one picture"),
        (np.ones((0, 4, 4)), "holds no pictures"),
        (np.ones((4, 0)), "non-empty"),
        (np.ones((4, 4), dtype=complex), "type complex128"),
        (np.full((4, 4), "a"), "real numbers"),
        (np.array([[1.0, np.nan], [np.inf, 2.0]]), "2 pixels that are NaN or infinite"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(tmp_path, stack, message):
    np.save(tmp_path / "stack.npy", stack)
    with pytest.raises(ValueError, match=message):
        load_natural_images(tmp_path / "stack.npy")


def test_non_finite_float_picture_is_refused(tmp_path):
    Image.fromarray(np.array([[0.0, np.inf]], dtype=np.float32)).save(tmp_path / "inf.tif")
    with pytest.raises(ValueError, match="1 pixels that are NaN or infinite"):
        load_natural_images(tmp_path / "inf.tif")


@given(
    st.lists(st.tuples(st.integers(3, 9), st.integers(3, 9)), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_every_patch_is_a_window_of_a_picture(shapes, size, seed):
    # Pixels number themselves, so a patch tells where it came from.
    starts = np.cumsum([0] + [h * w for h, w in shapes])
    images = [
        np.arange(start, start + h * w).reshape(h, w)
        for start, (h, w) in zip(starts, shapes, strict=False)
    ]
    patches = extract_patches(images, 20, size, dtype=np.float64, random_state=seed)
    assert patches.shape == (20, size**2)
    for patch in patches.reshape(-1, size, size).astype(int):
        i = np.searchsorted(starts, patch[0, 0], side="right") - 1
        row, column = divmod(patch[0, 0] - starts[i], shapes[i][1])
        np.testing.assert_array_equal(patch, images[i][row : row + size, column : column + size])


def test_every_position_of_every_picture_is_equally_likely():
    images = [np.arange(12).reshape(3, 4), 100 + np.arange(6).reshape(2, 3)]
    corners = extract_patches(images, 80_000, 2, random_state=0)[:, 0]
    values, counts = np.unique(corners, return_counts=True)
    # 2 x 3 positions in the first, 1 x 2 in the second.
    assert values.tolist() == [0, 1, 2, 4, 5, 6, 100, 101]
    np.testing.assert_allclose(counts, 10_000, atol=5 * np.sqrt(10_000))


def test_seed_fixes_the_patches_and_dtype_their_type():
    images = [pixels(40, 40)]
    first = extract_patches(images, 50, 8, random_state=3)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, extract_patches(images, 50, 8, random_state=3))
    assert not np.array_equal(first, extract_patches(images, 50, 8, random_state=4))
    wide = extract_patches(images, 50, 8, dtype=np.float64, random_state=3)
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, first)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "images is empty"),
        ([np.ones((20, 20)), np.ones((20, 7))], r"images\[1\] has shape \(20, 7\).*patch_size=8"),
        (np.ones((20, 20)), r"images\[0\] has shape \(20,\)"),
        ([np.full((9, 9), np.nan)], r"images\[0\] has 81 pixels that are NaN"),
    ],
)
def test_pictures_without_patches_are_refused(images, message):
    with pytest.raises(ValueError, match=message):
        extract_patches(images, 5, 8)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_counts_must_be_whole_and_positive(count):
    with pytest.raises(ValueError, match=r"n_patches=.* cannot be used: set it to an integer"):
        extract_patches([pixels()], count, 8)
    with pytest.raises(ValueError, match=r"patch_size=.* cannot be used: set it to an integer"):
        extract_patches([pixels()], 5, count)
