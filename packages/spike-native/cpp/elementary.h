// exp and log as plain arithmetic, which the compiler's vectoriser can take; a call to
// the mathematical library it cannot.
#pragma once

#include <cstdint>
#include <cstring>

#include "neurons.h"

namespace spike {
namespace SPIKE_LEVEL {

template <class T>
struct Format;  // how a floating-point type is laid out

template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kLeast = -87.0f;       // exp of less is below the normal range
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr int kExpTerms = 7, kLogTerms = 5;
};

template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kLeast = -708.0;
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLn2High = 0.693145751953125;
  static constexpr double kLn2Low = 1.42860682030941723212e-6;
  static constexpr int kExpTerms = 13, kLogTerms = 11;
};

template <class To, class From>
To bits_as(From from) {
  To to;
  static_assert(sizeof(To) == sizeof(From), "");
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// exp(x) for x <= 0: 2^n exp(r) with |r| <= ln(2) / 2 and the series of exp(r).
template <class T>
T exp_negative(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  x = x < F::kLeast ? F::kLeast : x;
  // Adding so large a number rounds to an integer, in the low bits of the sum.
  const T shifted = x * T(1.44269504088896340736) + F::kRound;
  const T n = shifted - F::kRound;
  const T r = (x - n * F::kLn2High) - n * F::kLn2Low;
  T series = 1;
  SPIKE_UNROLLED_SERIES
  for (int term = F::kExpTerms; term > 0; --term)
    series = mul_add(series, r * (T(1) / T(term)), T(1));
  const Bits power = (bits_as<Bits>(shifted) + Bits(F::kBias)) << F::kMantissa;
  return series * bits_as<T>(power);
}

// log(x) for normal x > 0: n ln 2 + log(m) with m from sqrt(1/2) to sqrt(2), and the
// series of 2 artanh((m - 1) / (m + 1)).
template <class T>
T log_positive(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  // Exponent and mantissa of x sqrt(2) split x where its mantissa is sqrt(1/2).
  const Bits root = bits_as<Bits>(T(0.70710678118654752440));
  const Bits offset = bits_as<Bits>(x) - root + (Bits(1) << F::kMantissa);
  const Bits exponent = offset >> F::kMantissa;
  // An integer in the low bits of a number in [2^mantissa, 2^(mantissa + 1)).
  const T base = bits_as<T>(Bits(F::kBias + F::kMantissa) << F::kMantissa);
  const T n = bits_as<T>(bits_as<Bits>(base) | exponent) - base - T(1);
  const T m = bits_as<T>(bits_as<Bits>(x) - ((exponent - Bits(1)) << F::kMantissa));
  const T s = (m - T(1)) / (m + T(1)), s2 = s * s;
  T series = 0;
  SPIKE_UNROLLED_SERIES
  for (int term = F::kLogTerms; term >= 0; --term)
    series = mul_add(series, s2, T(2) / T(2 * term + 1));
  return n * F::kLn2High + (n * F::kLn2Low + s * series);
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
