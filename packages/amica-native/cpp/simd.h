// Short vectors of float or double, as wide as the instruction set of this translation
// unit. Plain operators work on them; with compilers that lack vector extensions a
// "vector" is one scalar and everything still holds.
//
// This file is compiled several times with different instruction sets, so everything
// here has internal linkage: a function shared by the linker might be the copy that
// this processor cannot run. For the same reason the kernels include no header that
// defines functions.
#pragma once

#include <stdint.h>
#include <string.h>

#include "inline.h"

#if defined(__GNUC__) || defined(__clang__)
#define AMICA_VECTORS 1
#else
#define AMICA_VECTORS 0
#endif

#if AMICA_VECTORS && defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define AMICA_VECTOR_BYTES 64
#elif defined(__AVX__)
#define AMICA_VECTOR_BYTES 32
#else
#define AMICA_VECTOR_BYTES 16
#endif

namespace {

template <class T>
struct Simd;

#if AMICA_VECTORS
typedef float FloatVec __attribute__((vector_size(AMICA_VECTOR_BYTES)));
typedef double DoubleVec __attribute__((vector_size(AMICA_VECTOR_BYTES)));
typedef uint32_t Bits32Vec __attribute__((vector_size(AMICA_VECTOR_BYTES)));
typedef uint64_t Bits64Vec __attribute__((vector_size(AMICA_VECTOR_BYTES)));
#else
typedef float FloatVec;
typedef double DoubleVec;
typedef uint32_t Bits32Vec;
typedef uint64_t Bits64Vec;
#endif

template <>
struct Simd<float> {
  using Vec = FloatVec;
  using Bits = Bits32Vec;
  static constexpr int width = sizeof(Vec) / sizeof(float);
};

template <>
struct Simd<double> {
  using Vec = DoubleVec;
  using Bits = Bits64Vec;
  static constexpr int width = sizeof(Vec) / sizeof(double);
};

template <class T>
using Vec = typename Simd<T>::Vec;

template <class To, class From>
static AMICA_INLINE To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a cast keeps every bit");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

template <class T>
static AMICA_INLINE Vec<T> splat(T value) {
  return value - Vec<T>{};  // minus, so that -0 stays -0 and the compiler drops it
}

template <class T>
static AMICA_INLINE Vec<T> load(const T* from) {
  Vec<T> v;
  memcpy(&v, from, sizeof v);
  return v;
}

template <class T>
static AMICA_INLINE void store(T* to, const Vec<T>& v) {
  memcpy(to, &v, sizeof v);
}

// Both return `v` where it is NaN. One instruction on x86, which compilers do not find.
#if AMICA_VECTORS && defined(__AVX512F__)
static AMICA_INLINE FloatVec at_least(FloatVec v, FloatVec low) {
  return (FloatVec)_mm512_max_ps((__m512)low, (__m512)v);
}
static AMICA_INLINE DoubleVec at_least(DoubleVec v, DoubleVec low) {
  return (DoubleVec)_mm512_max_pd((__m512d)low, (__m512d)v);
}
static AMICA_INLINE FloatVec at_most(FloatVec v, FloatVec high) {
  return (FloatVec)_mm512_min_ps((__m512)high, (__m512)v);
}
static AMICA_INLINE DoubleVec at_most(DoubleVec v, DoubleVec high) {
  return (DoubleVec)_mm512_min_pd((__m512d)high, (__m512d)v);
}
#elif AMICA_VECTORS && defined(__AVX__)
static AMICA_INLINE FloatVec at_least(FloatVec v, FloatVec low) {
  return (FloatVec)_mm256_max_ps((__m256)low, (__m256)v);
}
static AMICA_INLINE DoubleVec at_least(DoubleVec v, DoubleVec low) {
  return (DoubleVec)_mm256_max_pd((__m256d)low, (__m256d)v);
}
static AMICA_INLINE FloatVec at_most(FloatVec v, FloatVec high) {
  return (FloatVec)_mm256_min_ps((__m256)high, (__m256)v);
}
static AMICA_INLINE DoubleVec at_most(DoubleVec v, DoubleVec high) {
  return (DoubleVec)_mm256_min_pd((__m256d)high, (__m256d)v);
}
#elif AMICA_VECTORS && defined(__SSE2__)
static AMICA_INLINE FloatVec at_least(FloatVec v, FloatVec low) {
  return (FloatVec)_mm_max_ps((__m128)low, (__m128)v);
}
static AMICA_INLINE DoubleVec at_least(DoubleVec v, DoubleVec low) {
  return (DoubleVec)_mm_max_pd((__m128d)low, (__m128d)v);
}
static AMICA_INLINE FloatVec at_most(FloatVec v, FloatVec high) {
  return (FloatVec)_mm_min_ps((__m128)high, (__m128)v);
}
static AMICA_INLINE DoubleVec at_most(DoubleVec v, DoubleVec high) {
  return (DoubleVec)_mm_min_pd((__m128d)high, (__m128d)v);
}
#else
template <class V>
static AMICA_INLINE V at_least(V v, V low) {
  return v < low ? low : v;
}
template <class V>
static AMICA_INLINE V at_most(V v, V high) {
  return v > high ? high : v;
}
#endif

template <class T>
static AMICA_INLINE Vec<T> magnitude(Vec<T> v) {
  using Bits = typename Simd<T>::Bits;
  return bit_cast<Vec<T>>(bit_cast<Bits>(v) & ~bit_cast<Bits>(splat(T(-0.0))));
}

// `size` with the sign of `v`.
template <class T>
static AMICA_INLINE Vec<T> with_sign_of(Vec<T> size, Vec<T> v) {
  using Bits = typename Simd<T>::Bits;
  const Bits sign = bit_cast<Bits>(splat(T(-0.0)));
  return bit_cast<Vec<T>>(bit_cast<Bits>(size) | (bit_cast<Bits>(v) & sign));
}

template <class T>
static AMICA_INLINE double sum_lanes(Vec<T> v) {
  T lanes[Simd<T>::width];
  memcpy(lanes, &v, sizeof v);
  for (int half = Simd<T>::width / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

// `add_neighbours(a, b)`: within each 16 bytes, sums of two neighbours, those of a first.
#if AMICA_VECTORS && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define AMICA_SHUFFLES 1
#endif
#endif

#if defined(AMICA_SHUFFLES)
#if AMICA_VECTOR_BYTES == 64
#define AMICA_FLOAT_EVEN 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define AMICA_FLOAT_ODD 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define AMICA_DOUBLE_EVEN 0, 8, 2, 10, 4, 12, 6, 14
#define AMICA_DOUBLE_ODD 1, 9, 3, 11, 5, 13, 7, 15
#elif AMICA_VECTOR_BYTES == 32
#define AMICA_FLOAT_EVEN 0, 2, 8, 10, 4, 6, 12, 14
#define AMICA_FLOAT_ODD 1, 3, 9, 11, 5, 7, 13, 15
#define AMICA_DOUBLE_EVEN 0, 4, 2, 6
#define AMICA_DOUBLE_ODD 1, 5, 3, 7
#else
#define AMICA_FLOAT_EVEN 0, 2, 4, 6
#define AMICA_FLOAT_ODD 1, 3, 5, 7
#define AMICA_DOUBLE_EVEN 0, 2
#define AMICA_DOUBLE_ODD 1, 3
#endif

static AMICA_INLINE FloatVec add_neighbours(FloatVec a, FloatVec b) {
  return __builtin_shufflevector(a, b, AMICA_FLOAT_EVEN) +
         __builtin_shufflevector(a, b, AMICA_FLOAT_ODD);
}
static AMICA_INLINE DoubleVec add_neighbours(DoubleVec a, DoubleVec b) {
  return __builtin_shufflevector(a, b, AMICA_DOUBLE_EVEN) +
         __builtin_shufflevector(a, b, AMICA_DOUBLE_ODD);
}

// Sums of the lanes of four vectors at once.
static AMICA_INLINE void sum_lanes_of_four(FloatVec a, FloatVec b, FloatVec c, FloatVec d,
                                           float* sums) {
  const FloatVec all = add_neighbours(add_neighbours(a, b), add_neighbours(c, d));
  float lanes[Simd<float>::width];
  memcpy(lanes, &all, sizeof all);
  for (int k = 0; k < 4; ++k) {
    sums[k] = lanes[k];
    for (int lane = k + 4; lane < Simd<float>::width; lane += 4) sums[k] += lanes[lane];
  }
}
static AMICA_INLINE void sum_lanes_of_four(DoubleVec a, DoubleVec b, DoubleVec c,
                                           DoubleVec d, double* sums) {
  constexpr int width = Simd<double>::width;
  const DoubleVec pairs[2] = {add_neighbours(a, b), add_neighbours(c, d)};
  double lanes[2 * width];
  memcpy(lanes, pairs, sizeof pairs);
  for (int k = 0; k < 4; ++k) {
    const double* of = lanes + k / 2 * width + k % 2;
    sums[k] = of[0];
    for (int lane = 2; lane < width; lane += 2) sums[k] += of[lane];
  }
}
#else
template <class V, class T>
static AMICA_INLINE void sum_lanes_of_four(V a, V b, V c, V d, T* sums) {
  sums[0] = T(sum_lanes<T>(a));
  sums[1] = T(sum_lanes<T>(b));
  sums[2] = T(sum_lanes<T>(c));
  sums[3] = T(sum_lanes<T>(d));
}
#endif

}  // namespace
