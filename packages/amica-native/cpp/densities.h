// Source densities. `forward` returns log2 of the unnormalised density at y and two
// values to remember; `backward` turns those into the score f, f / y and f y, each in
// units of Term::score_scale (which is rho for type 0).
#pragma once

#include "elementary.h"
#include "task.h"

namespace {

constexpr double log2_e = 1.4426950408889634;
constexpr double ln_2 = 0.69314718055994531;

template <class T>
struct Scores {
  Vec<T> score, over_y, times_y;
};

// |y|^rho. Remembers the power q and log2 |y|.
template <class T>
struct Power {
  static AMICA_INLINE Vec<T> forward(Vec<T> y, T rho, Vec<T>& q, Vec<T>& log_y) {
    log_y = log2_finite<T>(magnitude<T>(y));
    q = exp2<T>(rho * log_y);
    return q * T(-log2_e);
  }
  static AMICA_INLINE Scores<T> backward(const Term<T>&, Vec<T> y, Vec<T> q, Vec<T>) {
    // Where y is 0 so is q, and with it what is left out; elsewhere nothing changes.
    const Vec<T> inverse = T(1) / (y + Format<T>::negligible);
    const Vec<T> score = q * inverse;
    return {score, score * inverse, q};
  }
};

// The same, but f / y is NaN where y is 0.
template <class T>
struct LiteralPower : Power<T> {
  static AMICA_INLINE Scores<T> backward(const Term<T>& term, Vec<T> y, Vec<T> q, Vec<T>) {
    const auto zero = y == Vec<T>{};
    const Vec<T> inverse = zero ? Vec<T>{} : T(1) / y;
    const Vec<T> score = q * inverse;
    return {score, zero ? splat(term.slope_at_zero) : score * inverse, q};
  }
};

// Type 0 with rho = 1: no power.
template <class T>
struct Laplace {
  static AMICA_INLINE Vec<T> forward(Vec<T> y, T, Vec<T>& q, Vec<T>& log_y) {
    q = magnitude<T>(y);
    log_y = log2_finite<T>(q);
    return q * T(-log2_e);
  }
  static AMICA_INLINE Scores<T> backward(const Term<T>& term, Vec<T> y, Vec<T> q, Vec<T>) {
    const auto zero = y == Vec<T>{};
    const Vec<T> sign = with_sign_of<T>(splat(T(1)), y);
    return {zero ? splat(term.score_at_zero) : sign,
            zero ? splat(term.slope_at_zero) : T(1) / q, q};
  }
};

// Type 0 with rho = 2: no power and no division.
template <class T>
struct Normal {
  static AMICA_INLINE Vec<T> forward(Vec<T> y, T, Vec<T>& q, Vec<T>& log_y) {
    q = y * y;
    log_y = log2_finite<T>(magnitude<T>(y));
    return q * T(-log2_e);
  }
  static AMICA_INLINE Scores<T> backward(const Term<T>& term, Vec<T> y, Vec<T> q, Vec<T>) {
    return {y, y == Vec<T>{} ? splat(term.slope_at_zero) : splat(T(1)), q};
  }
};

// exp(-y^2 / 2)
template <class T>
struct Gaussian {
  static AMICA_INLINE Vec<T> forward(Vec<T> y, T, Vec<T>& unused, Vec<T>& none) {
    unused = none = Vec<T>{};
    return y * y * T(-0.5 * log2_e);
  }
  static AMICA_INLINE Scores<T> backward(const Term<T>& term, Vec<T> y, Vec<T>, Vec<T>) {
    return {y, y == Vec<T>{} ? splat(term.slope_at_zero) : splat(T(1)), y * y};
  }
};

// log2 cosh(y), and tanh(y), from one exponential that cannot overflow.
template <class T>
static AMICA_INLINE Vec<T> log2_cosh(Vec<T> y, Vec<T>& tanh_y) {
  const Vec<T> scaled = magnitude<T>(y) * T(log2_e);
  const Vec<T> e = exp2_bounded<T>(scaled * T(-2));
  tanh_y = with_sign_of<T>((T(1) - e) / (T(1) + e), y);
  return scaled + log2_finite<T>(T(1) + e) - T(1);
}

template <class T>
static AMICA_INLINE Scores<T> from_score(const Term<T>& term, Vec<T> y, Vec<T> score) {
  return {score, y == Vec<T>{} ? splat(term.slope_at_zero) : score / y, score * y};
}

// exp(-y^2 / 2) cosh(y)^sign: sub-Gaussian for +1, super-Gaussian for -1. Remembers tanh.
template <class T, int sign>
struct Curved {
  static AMICA_INLINE Vec<T> forward(Vec<T> y, T, Vec<T>& tanh_y, Vec<T>& none) {
    none = Vec<T>{};
    return y * y * T(-0.5 * log2_e) + T(sign) * log2_cosh<T>(y, tanh_y);
  }
  static AMICA_INLINE Scores<T> backward(const Term<T>& term, Vec<T> y, Vec<T> tanh_y,
                                         Vec<T>) {
    return from_score<T>(term, y, y - T(sign) * tanh_y);
  }
};

// cosh(y / 2)^-2. Remembers tanh.
template <class T>
struct Logistic {
  static AMICA_INLINE Vec<T> forward(Vec<T> y, T, Vec<T>& tanh_y, Vec<T>& none) {
    none = Vec<T>{};
    return log2_cosh<T>(y * T(0.5), tanh_y) * T(-2);
  }
  static AMICA_INLINE Scores<T> backward(const Term<T>& term, Vec<T> y, Vec<T> tanh_y,
                                         Vec<T>) {
    return from_score<T>(term, y, tanh_y);
  }
};

}  // namespace
