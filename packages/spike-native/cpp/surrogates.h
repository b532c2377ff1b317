// Surrogate derivatives, a row of neurons at a time: out[i] = psi(distance[i]).
//
// Called through a function pointer once a row, so that a model needs not be compiled
// once for each of them.
#pragma once

#include <cmath>

#include "elementary.h"
#include "loops.h"

namespace spike {
namespace SPIKE_LEVEL {

template <class T, class Psi>
void map_row(const T* distance, T* out, int64_t n, Psi psi) {
  SPIKE_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = psi(distance[i]);
}

// The density of the normal distribution.
template <class T>
T normal(T z) {
  return T(0.39894228040143267794) * exp_negative(T(-0.5) * z * z);
}

template <class T>
void fast_sigmoid(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T q = T(1) / (T(1) + k * std::fabs(u));
    return q * q;
  });
}

template <class T>
void atan(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T w = T(1.57079632679489661923) * k * u;
    return T(0.5) * k / (T(1) + w * w);
  });
}

template <class T>
void sigmoid(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T e = exp_negative(-k * std::fabs(u)), q = T(1) / (T(1) + e);
    return k * e * q * q;
  });
}

template <class T>
void tanh(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T e = exp_negative(T(-2) * k * std::fabs(u)), q = T(1) / (T(1) + e);
    return T(4) * e * q * q;
  });
}

template <class T>
void erf(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T z = k * u;
    return T(0.56418958354775628695) * k * exp_negative(-z * z);
  });
}

template <class T>
void exponential(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    return T(0.5) * k * exp_negative(-k * std::fabs(u));
  });
}

template <class T>
void triangular(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T h = T(1) - k * std::fabs(u);
    return k * (h > 0 ? h : T(0));
  });
}

template <class T>
void boxcar(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) {
    const T z = k * std::fabs(u);
    // On the edge the mean of the two sides, which is what JAX makes of a minimum.
    return T(0.5) * k * ((z < T(0.5) ? T(1) : T(0)) + (z <= T(0.5) ? T(1) : T(0)));
  });
}

// shape: height, width
template <class T>
void multi_gaussian(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  const T h = s.shape[0], inverse_width = T(1) / s.shape[1];
  map_row(d, out, n, [=, k = s.slope](T u) {
    const T z = k * u;
    const T sides =
        normal((z - T(1)) * inverse_width) + normal((z + T(1)) * inverse_width);
    return k * ((T(1) + h) * normal(z) - h * inverse_width * sides);
  });
}

// shape: exponent
template <class T>
void power_law(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  const T p = s.shape[0], scale = T(2) * s.slope / (p - T(1));
  map_row(d, out, n, [=](T u) {
    return exp_negative(-p * log_positive(T(1) + scale * std::fabs(u)));
  });
}

template <class T>
void logarithmic(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T u) { return k / (T(1) + k * std::fabs(u)); });
}

template <class T>
void straight_through(const T* d, T* out, int64_t n, const SurrogateShape<T>& s) {
  map_row(d, out, n, [k = s.slope](T) { return k; });
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
