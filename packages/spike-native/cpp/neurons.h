// The neuron models: one step of one neuron, and its reverse.
//
// A model is a struct of static functions over small structs of scalars; `sequence.h`
// runs them over rows of neurons, where the compiler turns them into vector code.
// Conventions: `step` advances the state in place and returns the signal, which is the
// distance of the membrane to the threshold (a spike is a signal above zero) or, for a
// model that does not spike, the output itself. `reverse` takes the state before the
// step, replaces the cotangent of the state after it by that of the state before it,
// adds to the parameters' cotangents and returns the input's.
#pragma once

#include <algorithm>

#include "spike_native.h"

namespace spike {

// In front of a loop over neurons: its iterations are independent, vectorise it.
#if defined(__clang__)
#define SPIKE_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SPIKE_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#else
#define SPIKE_INDEPENDENT_LOOP
#endif

#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define SPIKE_HAS_FMA 1
#else
#define SPIKE_HAS_FMA 0
#endif

// Named, so that the rounding of a membrane does not depend on where the compiler
// finds it worth while to contract a product and a sum.
inline float mul_add(float a, float b, float c) {
  return SPIKE_HAS_FMA ? __builtin_fmaf(a, b, c) : a * b + c;
}
inline double mul_add(double a, double b, double c) {
  return SPIKE_HAS_FMA ? __builtin_fma(a, b, c) : a * b + c;
}

enum class Reset {
  kNone = SPIKE_RESET_NONE,
  kSubtract = SPIKE_RESET_SUBTRACT,
  kValue = SPIKE_RESET_VALUE,
  kZero = SPIKE_RESET_ZERO,
};

// H(distance), strict: a membrane exactly at the threshold does not fire.
template <class T>
inline T spike_of(T distance) {
  return distance > 0 ? T(1) : T(0);
}

// The reset v(u, s, threshold), s being the spike, and its reverse. In arithmetic, not
// in branches: the loops over neurons become vector code only so.
template <class T, Reset reset, bool detach>
struct ResetRule {
  static T apply(T u, T s, T threshold, T v_reset) {
    switch (reset) {
      case Reset::kSubtract: return u - threshold * s;
      case Reset::kValue: return u * (T(1) - s) + v_reset * s;
      case Reset::kZero: return u * (T(1) - s);
      default: return u;
    }
  }

  // dv/du along the membrane alone, the spike held fixed.
  static T through_membrane(T s) {
    return reset == Reset::kValue || reset == Reset::kZero ? T(1) - s : T(1);
  }

  // dv/ds: what the spike's surrogate gradient is multiplied with.
  static T through_spike(T u, T threshold, T v_reset) {
    if (detach) return T(0);
    switch (reset) {
      case Reset::kSubtract: return -threshold;
      case Reset::kValue: return v_reset - u;
      case Reset::kZero: return -u;
      default: return T(0);
    }
  }

  // dv/dthreshold, the spike held fixed.
  static T through_threshold(T s) { return reset == Reset::kSubtract ? -s : T(0); }
};

// Leaky integrate-and-fire: u = decay v + gain x, a spike where u > threshold. A neuron
// that `rests` keeps its membrane for some steps after a spike, whatever comes in.
template <class T, Reset reset, bool detach, bool rests>
struct Lif {
  static constexpr bool kSpikes = true;
  static constexpr int kStates = rests ? 2 : 1;
  static constexpr int kParameters = reset == Reset::kValue ? 4 : 3;
  using Rule = ResetRule<T, reset, detach>;

  struct State {
    T v, rest;
    static State load(const T* rows, int64_t stride, int64_t i) {
      return {rows[i], rests ? rows[stride + i] : T(0)};
    }
    void store(T* rows, int64_t stride, int64_t i) const {
      rows[i] = v;
      if (rests) rows[stride + i] = rest;
    }
  };

  struct Parameters {
    T decay, gain, threshold, v_reset;
    static Parameters load(const T* rows, int64_t stride, int64_t i) {
      return {rows[i], rows[stride + i], rows[2 * stride + i],
              reset == Reset::kValue ? rows[3 * stride + i] : T(0)};
    }
    void store(T* rows, int64_t stride, int64_t i) const {
      rows[i] = decay, rows[stride + i] = gain, rows[2 * stride + i] = threshold;
      if (reset == Reset::kValue) rows[3 * stride + i] = v_reset;
    }
  };

  static T step(State& s, const Parameters& p, T x, T refractory) {
    const T u = mul_add(p.decay, s.v, p.gain * x);
    const T distance = rests && s.rest > 0 ? T(-1) : u - p.threshold;
    const T spike = spike_of(distance);
    const T after = Rule::apply(u, spike, p.threshold, p.v_reset);
    s.v = rests && s.rest > 0 ? s.v : after;
    if (rests) s.rest = std::max(s.rest - T(1), refractory * spike);
    return distance;
  }

  static T reverse(const State& before, const Parameters& p, T x, T distance, T psi,
                   T y_grad, State& g, Parameters& gp) {
    const T u = mul_add(p.decay, before.v, p.gain * x);
    const T spike = spike_of(distance);
    const T awake = rests && before.rest > 0 ? T(0) : T(1);
    const T g_after = g.v * awake;
    const T at_spike =
        psi * (awake * y_grad + g_after * Rule::through_spike(u, p.threshold, p.v_reset));
    const T at_membrane = at_spike + g_after * Rule::through_membrane(spike);
    gp.threshold += g_after * Rule::through_threshold(spike) - at_spike;
    if (reset == Reset::kValue) gp.v_reset += g_after * spike;
    gp.decay += at_membrane * before.v;
    gp.gain += at_membrane * x;
    g.v = rests ? mul_add(at_membrane, p.decay, g.v - g_after) : at_membrane * p.decay;
    return at_membrane * p.gain;
  }
};

// Leaky integrator: v = decay v + gain x is the output.
template <class T>
struct LeakyIntegrator {
  static constexpr bool kSpikes = false;
  static constexpr int kStates = 1;
  static constexpr int kParameters = 2;

  struct State {
    T v;
    static State load(const T* rows, int64_t, int64_t i) { return {rows[i]}; }
    void store(T* rows, int64_t, int64_t i) const { rows[i] = v; }
  };

  struct Parameters {
    T decay, gain;
    static Parameters load(const T* rows, int64_t stride, int64_t i) {
      return {rows[i], rows[stride + i]};
    }
    void store(T* rows, int64_t stride, int64_t i) const {
      rows[i] = decay, rows[stride + i] = gain;
    }
  };

  static T step(State& s, const Parameters& p, T x, T) {
    s.v = mul_add(p.decay, s.v, p.gain * x);
    return s.v;
  }

  static T reverse(const State& before, const Parameters& p, T x, T, T, T y_grad,
                   State& g, Parameters& gp) {
    const T at_membrane = g.v + y_grad;
    gp.decay += at_membrane * before.v;
    gp.gain += at_membrane * x;
    g.v = at_membrane * p.decay;
    return at_membrane * p.gain;
  }
};

}  // namespace spike
