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

// Both return NaN for NaN.
template <class V>
static AMICA_INLINE V at_least(V v, V low) {
  return v < low ? low : v;
}

template <class V>
static AMICA_INLINE V at_most(V v, V high) {
  return v > high ? high : v;
}

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
  double sum = 0;
  for (int lane = 0; lane < Simd<T>::width; ++lane) sum += lanes[lane];
  return sum;
}

}  // namespace
