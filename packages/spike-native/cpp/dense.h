// A dense layer whose input is mostly zeros, such as spikes: it adds the rows of the
// weights that belong to the other inputs. Any input will do; the time grows with the
// number of those that are not zero.
//
// Sums stay in registers, and what is added lies in the first-level cache: the second
// level delivers half of what the arithmetic takes. So the weights come in strips of
// `kDenseLanes` outputs, of which `kDenseInputs` rows serve a block of rows of the input
// before the next ones are read.
#pragma once

#include <algorithm>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "loops.h"
#include "neurons.h"
#include "rows.h"

namespace spike {
namespace SPIKE_LEVEL {

// 32 bytes: a register of AVX, or two.
template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(32)));
  static constexpr int kLanes = 32 / sizeof(T);
  static type load(const T* from) {
    type v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(T* to, type v) { std::memcpy(to, &v, sizeof v); }
};

// Bit i tells whether x[i] is not zero. 32 bits at a time: so it becomes vector code.
template <class T>
uint32_t nonzero(const T* x, int n) {
  uint32_t mask = 0;
  for (int i = 0; i < n; ++i) mask |= x[i] != T(0) ? uint32_t(1) << i : 0;
  return mask;
}

template <class T>
uint64_t nonzero_of_all(const T* x) {
  return nonzero(x, 32) | uint64_t(nonzero(x + 32, 32)) << 32;
}

#if defined(__AVX__)
inline uint64_t nonzero_of_all(const float* x) {
  uint64_t mask = 0;
  for (int i = 0; i < kDenseMask; i += 8) {
    const __m256 differs =
        _mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_setzero_ps(), _CMP_NEQ_UQ);
    mask |= uint64_t(uint32_t(_mm256_movemask_ps(differs))) << i;
  }
  return mask;
}
#endif

template <class T>
uint64_t nonzero(const T* x, int64_t n) {
  if (n == kDenseMask) return nonzero_of_all(x);
  uint64_t mask = 0;
  for (int64_t i = 0; i < n; ++i) mask |= uint64_t(x[i] != T(0)) << i;
  return mask;
}

// Adds the rows of a tile whose inputs are not zero to the sums in `from`, in two
// chains: one alone would wait for each of its additions.
template <class T>
void add_active(const T* x, const uint64_t* active, int64_t masks, const T* tile,
                const T* from, T* to) {
  using V = Vector<T>;
  constexpr int kVectors = 4;
  static_assert(kDenseLanes % (kVectors * V::kLanes) == 0, "whole registers");
  for (int64_t c = 0; c < kDenseLanes; c += kVectors * V::kLanes) {
    typename V::type even[kVectors], odd[kVectors] = {};
    SPIKE_UNROLLED
    for (int v = 0; v < kVectors; ++v) even[v] = V::load(from + c + v * V::kLanes);
    for (int64_t m = 0; m < masks; ++m) {
      const T* inputs = x + m * kDenseMask;
      const T* rows = tile + m * kDenseMask * kDenseLanes + c;
      for (uint64_t mask = active[m]; mask; mask &= mask - 1) {
        const int64_t i = __builtin_ctzll(mask);
        SPIKE_UNROLLED
        for (int v = 0; v < kVectors; ++v)
          even[v] += inputs[i] * V::load(rows + i * kDenseLanes + v * V::kLanes);
        mask &= mask - 1;
        if (!mask) break;
        const int64_t j = __builtin_ctzll(mask);
        SPIKE_UNROLLED
        for (int v = 0; v < kVectors; ++v)
          odd[v] += inputs[j] * V::load(rows + j * kDenseLanes + v * V::kLanes);
      }
    }
    SPIKE_UNROLLED
    for (int v = 0; v < kVectors; ++v) V::store(to + c + v * V::kLanes, even[v] + odd[v]);
  }
}

template <class T>
void dense_forward_block(const Dense<T>& a, int64_t outer, int64_t block) {
  const auto [_, n_rows, inputs, outputs] = a.shape;
  const int64_t begin = block * kDenseRows, rows = std::min(kDenseRows, n_rows - begin);
  const T* x = a.x + (outer * n_rows + begin) * inputs;
  T* y = a.y + (outer * n_rows + begin) * outputs;
  const T* weights = a.weights + outer * parts(outputs, kDenseLanes) * inputs * kDenseLanes;
  uint64_t active[kDenseRows][kDenseInputs / kDenseMask];
  for (int64_t first = 0; first < inputs || first == 0; first += kDenseInputs) {
    const int64_t n_inputs = std::min(kDenseInputs, inputs - first);
    const int64_t masks = parts(n_inputs, kDenseMask);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t m = 0; m < masks; ++m)
        active[r][m] = nonzero(x + r * inputs + first + m * kDenseMask,
                               std::min<int64_t>(kDenseMask, n_inputs - m * kDenseMask));
    for (int64_t c = 0; c < outputs; c += kDenseLanes) {
      const T* tile = weights + c * inputs + first * kDenseLanes;
      const int64_t n = std::min(kDenseLanes, outputs - c);
      for (int64_t r = 0; r < rows; ++r) {
        T* to = y + r * outputs + c;
        const T* from = first == 0 ? a.bias + outer * outputs + c : to;
        const T* row = x + r * inputs + first;
        if (n == kDenseLanes) {
          add_active(row, active[r], masks, tile, from, to);
          continue;
        }
        T sums[kDenseLanes] = {};
        std::memcpy(sums, from, n * sizeof(T));
        add_active(row, active[r], masks, tile, sums, sums);
        std::memcpy(to, sums, n * sizeof(T));
      }
    }
  }
}

// Transposes 64 x 64 bits: bit j of word i becomes bit i of word j (Warren, Hacker's
// Delight, section 7-3).
inline void transpose_bits(uint64_t* a) {
  uint64_t mask = 0x00000000FFFFFFFFull;
  for (int j = 32; j != 0; j >>= 1, mask ^= mask << j)
    for (int k = 0; k < 64; k = (k + j + 1) & ~j) {
      const uint64_t t = ((a[k] >> j) ^ a[k + j]) & mask;
      a[k] ^= t << j;
      a[k + j] ^= t;
    }
}

// Adds to rows of a tile the rows of the output's cotangent in which their inputs are
// active: bit r of active[i] tells it of input i. kVectors registers wide.
template <int kVectors, class T>
void add_outer(const uint64_t* active, const T* x, int64_t inputs, int64_t n_inputs,
               const T* y_grad, int64_t stride, T* tile) {
  using V = Vector<T>;
  for (int64_t i = 0; i < n_inputs; ++i) {
    if (active[i] == 0) continue;
    T* to = tile + i * kDenseTile;
    typename V::type sum[kVectors];
    SPIKE_UNROLLED
    for (int v = 0; v < kVectors; ++v) sum[v] = V::load(to + v * V::kLanes);
    for (uint64_t mask = active[i]; mask; mask &= mask - 1) {
      const int64_t r = __builtin_ctzll(mask);
      const T* row = y_grad + r * stride;
      SPIKE_UNROLLED
      for (int v = 0; v < kVectors; ++v)
        sum[v] += x[r * inputs + i] * V::load(row + v * V::kLanes);
    }
    SPIKE_UNROLLED
    for (int v = 0; v < kVectors; ++v) V::store(to + v * V::kLanes, sum[v]);
  }
}

// A tile of the weights' gradient, kDenseMask inputs by kDenseTile outputs.
template <class T>
void dense_backward_block(const DenseGrad<T>& a, int64_t outer, int64_t block) {
  constexpr int64_t kNarrow = 4 * Vector<T>::kLanes, kWide = 8 * Vector<T>::kLanes;
  const auto [_, n_rows, inputs, outputs] = a.shape;
  const int64_t across = parts(outputs, kDenseTile);
  const int64_t i0 = block / across * kDenseMask, c0 = block % across * kDenseTile;
  const int64_t n_inputs = std::min<int64_t>(kDenseMask, inputs - i0);
  const int64_t n = std::min<int64_t>(kDenseTile, outputs - c0);
  T tile[kDenseMask * kDenseTile] = {}, sum[kDenseTile] = {};
  T padded[kDenseMask * kWide] = {};
  for (int64_t r0 = 0; r0 < n_rows; r0 += kDenseMask) {
    const int64_t rows = std::min<int64_t>(kDenseMask, n_rows - r0);
    const T* x = a.x + (outer * n_rows + r0) * inputs + i0;
    const T* y_grad = a.y_grad + (outer * n_rows + r0) * outputs + c0;
    if (i0 == 0)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < n; ++c) sum[c] += y_grad[r * outputs + c];
    uint64_t active[kDenseMask] = {};  // of each row; then of each input
    for (int64_t r = 0; r < rows; ++r) active[r] = nonzero(x + r * inputs, n_inputs);
    transpose_bits(active);
    for (int64_t c = 0; c < n; c += kWide) {
      const T* g = y_grad + c;
      int64_t stride = outputs;
      const bool narrow = n - c <= kNarrow;
      if (n - c < kWide && n - c != kNarrow) {
        stride = narrow ? kNarrow : kWide;
        copy_rows(g, outputs, padded, stride, rows, n - c);
        g = padded;
      }
      if (narrow)
        add_outer<4>(active, x, inputs, n_inputs, g, stride, tile + c);
      else
        add_outer<8>(active, x, inputs, n_inputs, g, stride, tile + c);
    }
  }
  T* weights_grad = a.weights_grad + (outer * inputs + i0) * outputs + c0;
  for (int64_t i = 0; i < n_inputs; ++i)
    std::memcpy(weights_grad + i * outputs, tile + i * kDenseTile, n * sizeof(T));
  if (i0 == 0) std::memcpy(a.bias_grad + outer * outputs + c0, sum, n * sizeof(T));
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
