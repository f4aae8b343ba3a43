"""The scalar problem of Eq. (6)."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from hebbnmf.engine.units import quartic_minimum

coefficients = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(coefficients, coefficients)
@example(0.0, 8.0)
@example(-3.0, 0.0)
@example(-3.0, 2.0)
@example(-3.0, -2.0)
@example(-3.0, -1.0)
@example(1e-300, 1.0)
@example(-1e-220, 0.0)
def test_no_other_point_has_less_energy(p, c):
    def energy(y):
        return y**4 / 4 + p * y**2 / 2 - c * y

    y = quartic_minimum(p, c)
    bound = 2 * (np.sqrt(abs(p)) + np.cbrt(abs(c))) + 1
    grid = np.append(np.linspace(0, bound, 2001), y * np.array([1 - 1e-6, 1 + 1e-6]))
    scale = max(bound**4, 1.0)
    assert y >= 0
    assert energy(y) <= energy(grid).min() + 1e-12 * scale


@given(st.integers(-99, 99), st.integers(-99, 99), st.integers(-200, 200))
def test_minimum_scales_with_the_data(p, c, power):
    a = 2.0**power
    np.testing.assert_allclose(
        quartic_minimum(a * a * p, a * a * a * c), a * quartic_minimum(p, c), rtol=1e-12
    )


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_a_root_of_the_cubic_to_machine_precision(p, c):
    for sign in (1, -1):
        y = quartic_minimum(sign * p, c)
        np.testing.assert_allclose(y**3 + sign * p * y, c, rtol=0, atol=1e-13 * (y**3 + p * y))
