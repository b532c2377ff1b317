// The two matrix products of a block. Both operands fit the cache, one dimension is the
// number of components and the other a few hundred samples: too small for a general
// BLAS to be at its best.
#pragma once

#include "simd.h"
#include "task.h"

namespace {

// b = W x - offset for a block: `packed` holds W in panels of `unmix_rows` rows, see
// `pack_unmixing` in library.cc.
template <class T>
static void unmix(const T* packed, const T* offset, int64_t n, const T* x, T* b,
                  int64_t ld, int64_t length) {
  constexpr int width = Simd<T>::width, rows = unmix_rows;
  for (int64_t s = 0; s < length; s += 2 * width) {
    const T* panel = packed;
    for (int64_t top = 0; top < n; top += rows, panel += rows * n) {
      Vec<T> sum[rows][2] = {};
      for (int64_t k = 0; k < n; ++k) {
        const Vec<T> left = load(x + k * ld + s), right = load(x + k * ld + s + width);
        for (int r = 0; r < rows; ++r) {
          sum[r][0] += panel[k * rows + r] * left;
          sum[r][1] += panel[k * rows + r] * right;
        }
      }
      for (int r = 0; r < rows && top + r < n; ++r) {
        T* row = b + (top + r) * ld + s;
        store<T>(row, sum[r][0] - offset[top + r]);
        store<T>(row + width, sum[r][1] - offset[top + r]);
      }
    }
  }
}

// product[i, k] += sum over the block of g[i] * b[k].
template <class T>
static void accumulate_outer(const T* g, const T* b, int64_t n, int64_t ld,
                             int64_t length, double* product) {
  constexpr int width = Simd<T>::width, rows = 4, columns = 3;
  // As many rows of b as half of a small first-level cache holds meet every row of g.
  const int64_t fit = 16384 / (length * int64_t(sizeof(T))) / columns * columns;
  const int64_t group = fit < columns ? columns : fit;
  for (int64_t first = 0; first < n; first += group) {
    const int64_t last = first + group < n ? first + group : n;
    for (int64_t top = 0; top < n; top += rows) {
      for (int64_t left = first; left < last; left += columns) {
        // At the lower and right edges the last row or column is computed again.
        const T *gs[rows], *bs[columns];
        for (int r = 0; r < rows; ++r) gs[r] = g + (top + r < n ? top + r : n - 1) * ld;
        for (int c = 0; c < columns; ++c)
          bs[c] = b + (left + c < n ? left + c : n - 1) * ld;
        Vec<T> sum[rows][columns] = {};
        for (int64_t s = 0; s < length; s += width) {
          Vec<T> right[columns];
          for (int c = 0; c < columns; ++c) right[c] = load(bs[c] + s);
          for (int r = 0; r < rows; ++r) {
            const Vec<T> v = load(gs[r] + s);
            for (int c = 0; c < columns; ++c) sum[r][c] += v * right[c];
          }
        }
        for (int c = 0; c < columns && left + c < n; ++c) {
          T sums[rows];
          sum_lanes_of_four(sum[0][c], sum[1][c], sum[2][c], sum[3][c], sums);
          for (int r = 0; r < rows && top + r < n; ++r)
            product[(top + r) * n + left + c] += sums[r];
        }
      }
    }
  }
}

}  // namespace
