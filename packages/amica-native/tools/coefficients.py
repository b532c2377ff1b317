"""Print the polynomial coefficients of `cpp/elementary.h` (needs mpmath).

Each polynomial interpolates its function at Chebyshev nodes in 60 digits, which is
within a few per cent of the minimax polynomial; the printed error is the worst one on
a fine grid.
"""

from typing import Any


def fit(mp: Any, function, low, high, degree):
    """Coefficients, constant term first, of the interpolant at Chebyshev nodes."""
    count = degree + 1
    nodes = [
        (high + low) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count))
        for k in range(count)
    ]
    system = mp.matrix(count, count)
    for row, node in enumerate(nodes):
        for power in range(count):
            system[row, power] = node**power
    return list(mp.lu_solve(system, mp.matrix([function(node) for node in nodes])))


def report(mp: Any, name, function, low, high, degree, weight):
    """Print one polynomial and its largest (weighted) error."""
    coefficients = fit(mp, function, low, high, degree)
    error = max(
        abs(weight(x) * (mp.polyval(coefficients[::-1], x) - function(x)))
        for x in mp.linspace(low, high, 2001)
    )
    print(f"{name}, degree {degree}, largest error {mp.nstr(error, 3)}")
    for coefficient in coefficients:
        print(f"    {mp.nstr(coefficient, 20)},")


def main():
    """Print all of them."""
    import mpmath as mp

    mp.mp.dps = 60

    def one(x):
        return 1

    def itself(x):
        return x

    def exp2(f):
        return mp.mpf(2) ** f

    def log2_over_t(t):  # log2(1 + t) / t
        return mp.log(1 + t, 2) / t if t else 1 / mp.log(2)

    def log2_over_s(z):  # log2((1 + s) / (1 - s)) / s, in z = s * s
        s = mp.sqrt(z)
        return 2 * mp.atanh(s) / s / mp.log(2) if z else 2 / mp.log(2)

    half, root = mp.mpf(1) / 2, mp.sqrt(2)
    report(mp, "float exp2(f)", exp2, -half, half, 6, one)
    report(mp, "double exp2(f)", exp2, -half, half, 11, one)
    report(
        mp, "float log2(1+t)/t", log2_over_t, 1 / root - 1, root - 1, 8, weight=itself
    )
    largest = ((root - 1) / (root + 1)) ** 2
    report(mp, "double log2(m)/s", log2_over_s, mp.mpf(0), largest, 7, one)


if __name__ == "__main__":
    main()
