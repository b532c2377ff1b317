// 2^x and log2(x) on short vectors, for float and double. Base 2 saves the multiplication
// that base e needs in the range reduction; callers fold log2(e) into their constants.
//
// Largest errors seen (tests/test_elementary.py): see ERROR_ULP in `_elementary.py`.
#pragma once

#include "simd.h"

namespace {

template <class T>
struct Format;

template <>
struct Format<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr float bias = 127;
  static constexpr float to_integer = 12582912.0f;          // 1.5 * 2^23
  static constexpr uint32_t exponent_to_float = 0x4b000000u;  // bits of 2^23
  static constexpr float two_to_mantissa = 8388608.0f;
  static constexpr uint32_t mantissa_mask = 0x007fffffu;
  static constexpr uint32_t root_half = 0x3f3504f3u;  // bits of sqrt(1/2)
  static constexpr uint32_t one = 0x3f800000u;
  static constexpr uint32_t infinity = 0x7f800000u;
  static constexpr float negligible = 1e-30f;
};

template <>
struct Format<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double bias = 1023;
  static constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr uint64_t exponent_to_float = 0x4330000000000000u;
  static constexpr double two_to_mantissa = 4503599627370496.0;
  static constexpr uint64_t mantissa_mask = 0x000fffffffffffffu;
  static constexpr uint64_t root_half = 0x3fe6a09e667f3bcdu;
  static constexpr uint64_t one = 0x3ff0000000000000u;
  static constexpr uint64_t infinity = 0x7ff0000000000000u;
  static constexpr double negligible = 1e-290;
};

// Coefficients from tools/coefficients.py, constant term first.
static constexpr float exp2_float[] = {  // (2^f - 1) / f
    0.69314720670283259577f,
    0.24022650922288758071f,
    0.055503272266703020589f,
    0.0096180566785246380754f,
    0.001340042817761583794f,
    0.00015461444698569129083f,
};
static constexpr double exp2_double[] = {
    0.69314718055994530925,
    0.24022650695910159567,
    0.055504108664821627039,
    0.0096181291075872566681,
    0.0013333558146406470697,
    0.00015403530463724354209,
    0.000015252733841556772589,
    1.3215432535912376166e-6,
    1.0178057087733941105e-7,
    7.0741942972885210056e-9,
    4.455817908336064493e-10,
};
static constexpr float log2_float[] = {  // log2(1 + t) / t
    1.4426950035679821694f,  -0.7213474682495624521f, 0.48091075345941255868f,
    -0.36069326813533616254f, 0.28790326092450148021f, -0.23916988140104179962f,
    0.21607822552243776006f,  -0.20586188051276054753f, 0.12310968467191459807f,
};
static constexpr double log2_double[] = {  // log2((1 + s) / (1 - s)) / s, in s^2
    2.8853900817779268115,  0.96179669392598972877, 0.5770780163455202295,
    0.41219858584090053448, 0.32059853491395986095, 0.26233435250418301904,
    0.22091308423117679618, 0.21365895694319269427,
};

// Even and odd powers apart: two chains that the processor works on side by side.
template <class T, int count>
static AMICA_INLINE Vec<T> polynomial(const T (&coefficients)[count], Vec<T> x) {
  const Vec<T> square = x * x;
  Vec<T> last = splat(coefficients[count - 1]);
  Vec<T> before = splat(coefficients[count - 2]);
  for (int k = count - 3; k >= 0; --k) {
    const Vec<T> next = last * square + coefficients[k];
    last = before;
    before = next;
  }
  return last * x + before;
}

static AMICA_INLINE FloatVec exp2_polynomial(FloatVec f) {
  return polynomial(exp2_float, f) * f + 1.0f;
}
static AMICA_INLINE DoubleVec exp2_polynomial(DoubleVec f) {
  return polynomial(exp2_double, f) * f + 1.0;
}

// log2 of a mantissa m in [sqrt(1/2), sqrt(2)) plus the exponent e.
static AMICA_INLINE FloatVec log2_polynomial(FloatVec m, FloatVec e) {
  const FloatVec t = m - 1.0f;
  return polynomial(log2_float, t) * t + e;
}
static AMICA_INLINE DoubleVec log2_polynomial(DoubleVec m, DoubleVec e) {
  const DoubleVec t = m - 1.0;
  const DoubleVec s = t / (t + 2.0);
  return polynomial(log2_double, s * s) * s + e;
}

// 2^x for x below the largest exponent; results below the smallest normal number are 0.
template <class T>
static AMICA_INLINE Vec<T> exp2_bounded(Vec<T> x) {
  using F = Format<T>;
  using Bits = typename Simd<T>::Bits;
  x = at_least(x, splat(T(-F::bias)));
  // Adding 1.5 * 2^mantissa rounds to an integer and leaves it, with the bias of the
  // exponent, in the lowest bits.
  const Vec<T> shifted = x + T(F::to_integer + F::bias);
  const Vec<T> fraction = x - (shifted - T(F::to_integer + F::bias));
  const Bits scale = bit_cast<Bits>(shifted) << F::mantissa_bits;
  return exp2_polynomial(fraction) * bit_cast<Vec<T>>(scale);
}

// 2^x for any x.
template <class T>
static AMICA_INLINE Vec<T> exp2(Vec<T> x) {
  return exp2_bounded<T>(at_most(x, splat(T(Format<T>::bias + 1))));
}

// log2 of x >= 0, except that 0 counts as half the smallest normal number (subnormal
// ones as something between), infinity as a number beyond the largest, and NaN as
// any number.
template <class T>
static AMICA_INLINE Vec<T> log2_finite(Vec<T> x) {
  using F = Format<T>;
  using Bits = typename Simd<T>::Bits;
  const Bits bits = bit_cast<Bits>(x) + (F::one - F::root_half);
  const Vec<T> mantissa =
      bit_cast<Vec<T>>((bits & F::mantissa_mask) + F::root_half);
  const Vec<T> exponent =
      bit_cast<Vec<T>>((bits >> F::mantissa_bits) | F::exponent_to_float) -
      T(F::two_to_mantissa + F::bias);
  return log2_polynomial(mantissa, exponent);
}

// The same, but infinity and NaN pass.
template <class T>
static AMICA_INLINE Vec<T> log2(Vec<T> x) {
  return x < splat(bit_cast<T>(Format<T>::infinity)) ? log2_finite<T>(x) : x;
}

}  // namespace
