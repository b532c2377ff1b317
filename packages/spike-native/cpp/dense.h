// A dense layer whose input is mostly zeros, such as spikes: it adds the rows of the
// weights that belong to the other inputs. Any input will do; the time grows with the
// number of those that are not zero.
#pragma once

#include <algorithm>
#include <cstring>

#include "loops.h"
#include "neurons.h"

namespace spike {
namespace SPIKE_LEVEL {

constexpr int kMask = 64;  // inputs that one mask describes
constexpr int kGroup = 4;  // rows of the weights that are added in one pass

// Bit i tells whether x[i] is not zero. 32 bits at a time: so it becomes vector code.
template <class T>
uint32_t nonzero(const T* x, int n) {
  uint32_t mask = 0;
  for (int i = 0; i < n; ++i) mask |= x[i] != T(0) ? uint32_t(1) << i : 0;
  return mask;
}

template <class T>
uint64_t nonzero(const T* x, int64_t n) {
  if (n == kMask) return nonzero(x, 32) | uint64_t(nonzero(x + 32, 32)) << 32;
  uint64_t mask = 0;
  for (int64_t i = 0; i < n; ++i) mask |= uint64_t(x[i] != T(0)) << i;
  return mask;
}

// n is a multiple of kDenseLanes: whole vectors, and no loop for a remainder.
template <int count, class T>
void add_rows(const T* const* rows, const T* x, T* __restrict y, int64_t n) {
  const T* row[count];
  T factors[count];
  for (int k = 0; k < count; ++k) row[k] = rows[k], factors[k] = x[k];
  for (int64_t c = 0; c < n; c += kDenseLanes) {
    SPIKE_INDEPENDENT_LOOP
    for (int64_t lane = c; lane < c + kDenseLanes; ++lane) {
      T sum = y[lane];
      SPIKE_UNROLLED
      for (int k = 0; k < count; ++k) sum = mul_add(factors[k], row[k][lane], sum);
      y[lane] = sum;
    }
  }
}

// Adds to y the rows of the weights whose inputs are not zero.
template <class T>
void add_active(const T* x, int64_t inputs, const T* weights, int64_t stride, T* y,
                int64_t n) {
  const T* rows[kGroup];
  T values[kGroup];
  int held = 0;
  for (int64_t first = 0; first < inputs; first += kMask) {
    uint64_t mask = nonzero(x + first, std::min<int64_t>(kMask, inputs - first));
    for (; mask; mask &= mask - 1) {
      const int64_t i = first + __builtin_ctzll(mask);
      rows[held] = weights + i * stride;
      values[held] = x[i];
      if (++held == kGroup) {
        add_rows<kGroup>(rows, values, y, n);
        held = 0;
      }
    }
  }
  switch (held) {
    case 1: add_rows<1>(rows, values, y, n); break;
    case 2: add_rows<2>(rows, values, y, n); break;
    case 3: add_rows<3>(rows, values, y, n); break;
  }
}

template <class T>
void dense_forward_block(const Dense<T>& a, int64_t outer, int64_t block) {
  constexpr int64_t kColumns = 256;
  const auto [_, n_rows, inputs, outputs] = a.shape;
  const int64_t width = dense_width(outputs), end = std::min(n_rows, (block + 1) * kDenseRows);
  const T* weights = a.weights + outer * inputs * width;
  const T* bias = a.bias + outer * width;
  T sums[kColumns];
  for (int64_t c = 0; c < width; c += kColumns) {
    const int64_t n = std::min(kColumns, width - c);
    for (int64_t r = block * kDenseRows; r < end; ++r) {
      for (int64_t lane = 0; lane < n; ++lane) sums[lane] = bias[c + lane];
      add_active(a.x + (outer * n_rows + r) * inputs, inputs, weights + c, width, sums, n);
      std::memcpy(a.y + (outer * n_rows + r) * outputs + c, sums,
                  std::min(n, outputs - c) * sizeof(T));
    }
  }
}

// A tile of the weights' gradient stays in the first-level cache for all rows of x.
template <class T>
void dense_backward_block(const DenseGrad<T>& a, int64_t outer, int64_t block) {
  const auto [_, n_rows, inputs, outputs] = a.shape;
  const int64_t across = (outputs + kDenseTile - 1) / kDenseTile;
  const int64_t i0 = block / across * kDenseTile, c0 = block % across * kDenseTile;
  const int64_t n_inputs = std::min<int64_t>(kDenseTile, inputs - i0);
  const int64_t n = std::min<int64_t>(kDenseTile, outputs - c0), width = dense_width(n);
  T tile[kDenseTile * kDenseTile] = {}, sum[kDenseTile] = {}, padded[kDenseTile] = {};
  const T one = 1;
  for (int64_t r = outer * n_rows; r < (outer + 1) * n_rows; ++r) {
    const T* x = a.x + r * inputs + i0;
    const T* y_grad = a.y_grad + r * outputs + c0;
    if (n < width) {
      for (int64_t c = 0; c < n; ++c) padded[c] = y_grad[c];
      y_grad = padded;
    }
    if (i0 == 0) add_rows<1>(&y_grad, &one, sum, width);
    for (uint64_t mask = nonzero(x, n_inputs); mask; mask &= mask - 1) {
      const int i = __builtin_ctzll(mask);
      add_rows<1>(&y_grad, x + i, tile + i * kDenseTile, width);
    }
  }
  T* weights_grad = a.weights_grad + (outer * inputs + i0) * outputs + c0;
  for (int64_t i = 0; i < n_inputs; ++i)
    std::memcpy(weights_grad + i * outputs, tile + i * kDenseTile, n * sizeof(T));
  if (i0 == 0) std::memcpy(a.bias_grad + outer * outputs + c0, sum, n * sizeof(T));
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
