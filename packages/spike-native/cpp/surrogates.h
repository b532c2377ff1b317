// Surrogate derivatives, a row of neurons at a time: out[i] = psi(distance[i]).
//
// Called through a function pointer once a row, so that a model needs not be compiled
// once for each of them.
#pragma once

#include <cmath>
#include <cstdint>

#include "neurons.h"

namespace spike {

template <class T>
using SurrogateRow = void (*)(const T* distance, T* out, int64_t n, T slope);

template <class T>
void fast_sigmoid(const T* distance, T* out, int64_t n, T slope) {
SPIKE_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const T q = T(1) / (T(1) + slope * std::fabs(distance[i]));
    out[i] = q * q;
  }
}

template <class T>
void atan(const T* distance, T* out, int64_t n, T slope) {
  const T scale = T(1.57079632679489661923) * slope;
SPIKE_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const T w = scale * distance[i];
    out[i] = T(0.5) * slope / (T(1) + w * w);
  }
}

}  // namespace spike
