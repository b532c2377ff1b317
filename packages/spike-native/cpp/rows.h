// Rows of arrays, copied: `rows` of them, n entries each, strides apart.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "loops.h"

namespace spike {
namespace SPIKE_LEVEL {

template <class T>
void copy_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int rows,
               int64_t n) {
  for (int k = 0; k < rows; ++k)
    std::memcpy(to + k * to_stride, from + k * from_stride, n * sizeof(T));
}

// Whether rows of n entries, one behind the other, can be streamed.
template <class T>
bool can_stream(const T* to, int64_t n) {
#if defined(__SSE2__)
  constexpr int64_t kLanes = 16 / sizeof(T);
  return reinterpret_cast<uintptr_t>(to) % 16 == 0 && n % kLanes == 0;
#else
  return false;
#endif
}

// As copy_rows, but past the caches, which would first read what is to be overwritten:
// for arrays that no cache could keep until their next reader comes. `to`, its stride
// and n are multiples of 16 bytes.
template <class T>
void stream_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int rows,
                 int64_t n) {
#if defined(__SSE2__)
  for (int k = 0; k < rows; ++k)
    for (int64_t i = 0; i < n; i += 16 / sizeof(T)) {
      __m128i entries;
      std::memcpy(&entries, from + k * from_stride + i, sizeof entries);
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + k * to_stride + i), entries);
    }
#else
  copy_rows(from, from_stride, to, to_stride, rows, n);
#endif
}

// Streamed rows are seen by other threads from here on.
inline void end_of_stream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
