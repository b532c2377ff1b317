// The neuron models: one step of one neuron, and its reverse.
//
// A model is a struct of static functions over small structs of scalars; `sequence.h`
// runs them over rows of neurons, where the compiler turns them into vector code.
// Conventions: `step` advances the state in place and returns the signal, which is the
// distance of the membrane to the threshold (a spike is a signal above zero) or, for a
// model that does not spike, the output itself. `reverse` takes the state before the
// step, replaces the cotangent of the state after it by that of the state before it,
// adds to the parameters' cotangents and returns the input's.
//
// Conditions are written as arithmetic wherever they repeat: the compiler turns two
// branches on one condition into control flow, and control flow into scalar code.
#pragma once

#include <algorithm>

#include "spike_native.h"

namespace spike {
namespace SPIKE_LEVEL {

// In front of a loop over neurons: its iterations are independent, vectorise it; and in
// front of the short loops inside it, over steps and over the terms of a series.
#if defined(__clang__)
#define SPIKE_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#define SPIKE_UNROLLED _Pragma("clang loop unroll(full)")
#define SPIKE_UNROLLED_SERIES _Pragma("clang loop unroll(full)")
#else
#define SPIKE_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#define SPIKE_UNROLLED _Pragma("GCC unroll 8")
#define SPIKE_UNROLLED_SERIES _Pragma("GCC unroll 16")
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
};

// What is the same for all neurons of a layer.
template <class T>
struct Constants {
  T refractory;      // steps of rest after a spike
  T spike_in_reset;  // 0 where the reset is detached, else 1
};

// H(distance), strict: a membrane exactly at the threshold does not fire.
template <class T>
inline T spike_of(T distance) {
  return distance > 0 ? T(1) : T(0);
}

// The reset v(u, s, threshold), s being the spike, and its partial derivatives.
template <class T, Reset reset>
struct ResetRule {
  static T apply(T u, T s, T threshold, T v_reset) {
    if (reset == Reset::kSubtract) return u - threshold * s;
    if (reset == Reset::kValue) return u * (T(1) - s) + v_reset * s;
    return u;
  }
  static T by_membrane(T s) { return reset == Reset::kValue ? T(1) - s : T(1); }
  static T by_threshold(T s) { return reset == Reset::kSubtract ? -s : T(0); }
  static T by_spike(T u, T threshold, T v_reset) {
    if (reset == Reset::kSubtract) return -threshold;
    if (reset == Reset::kValue) return v_reset - u;
    return T(0);
  }
};

// What a spiking model has beside its membrane: a slow variable w.
enum class Slow {
  kNone,        // LIF
  kAdaptation,  // ALIF: raises the threshold by coupling w; a spike adds one to it
  kCurrent,     // CubaLIF: w, driven by coupling x, is what enters the membrane
};

// Leaky integrate-and-fire: u = decay v + gain x, a spike where u > threshold. A neuron
// that `rests` keeps its membrane for some steps after a spike, whatever comes in.
template <class T, Slow slow, Reset reset, bool rests>
struct Lif {
  static constexpr bool kSpikes = true;
  static constexpr bool kSlow = slow != Slow::kNone;
  static constexpr int kStates = 1 + kSlow + rests;
  static constexpr int kParameters = 3 + 2 * kSlow + (reset == Reset::kValue);
  using Rule = ResetRule<T, reset>;

  struct State {
    T v, w, rest;
    static State load(const T* rows, int64_t stride, int64_t i) {
      return {rows[i], kSlow ? rows[stride + i] : T(0),
              rests ? rows[(1 + kSlow) * stride + i] : T(0)};
    }
    void store(T* rows, int64_t stride, int64_t i) const {
      rows[i] = v;
      if (kSlow) rows[stride + i] = w;
      if (rests) rows[(1 + kSlow) * stride + i] = rest;
    }
  };

  struct Parameters {
    T decay, gain, threshold, decay_w, coupling, v_reset;
    static Parameters load(const T* rows, int64_t stride, int64_t i) {
      return {rows[i],
              rows[stride + i],
              rows[2 * stride + i],
              kSlow ? rows[3 * stride + i] : T(0),
              kSlow ? rows[4 * stride + i] : T(0),
              reset == Reset::kValue ? rows[(3 + 2 * kSlow) * stride + i] : T(0)};
    }
    void store(T* rows, int64_t stride, int64_t i) const {
      rows[i] = decay;
      rows[stride + i] = gain;
      rows[2 * stride + i] = threshold;
      if (kSlow) rows[3 * stride + i] = decay_w;
      if (kSlow) rows[4 * stride + i] = coupling;
      if (reset == Reset::kValue) rows[(3 + 2 * kSlow) * stride + i] = v_reset;
    }
  };

  static T current(const State& before, const Parameters& p, T x) {
    return slow == Slow::kCurrent ? mul_add(p.decay_w, before.w, p.coupling * x) : x;
  }
  static T membrane(const State& before, const Parameters& p, T current) {
    return mul_add(p.decay, before.v, p.gain * current);
  }
  static T threshold(const State& before, const Parameters& p) {
    return slow == Slow::kAdaptation ? mul_add(p.coupling, before.w, p.threshold)
                                     : p.threshold;
  }

  static T step(State& s, const Parameters& p, T x, const Constants<T>& c) {
    const T i = current(s, p, x);
    const T u = membrane(s, p, i);
    const T theta = threshold(s, p);
    const T distance = rests && s.rest > 0 ? T(-1) : u - theta;
    const T spike = spike_of(distance);
    const T after = Rule::apply(u, spike, theta, p.v_reset);
    s.v = rests && s.rest > 0 ? s.v : after;
    if (slow == Slow::kAdaptation) s.w = mul_add(p.decay_w, s.w, spike);
    if (slow == Slow::kCurrent) s.w = i;
    if (rests) s.rest = std::max(s.rest - T(1), c.refractory * spike);
    return distance;
  }

  static T reverse(const State& before, const Parameters& p, T x, const Constants<T>& c,
                   T distance, T psi, T y_grad, State& g, Parameters& gp) {
    const T i = current(before, p, x);
    const T u = membrane(before, p, i);
    const T theta = threshold(before, p);
    const T spike = spike_of(distance);
    const T awake = rests && before.rest > 0 ? T(0) : T(1);
    const T g_reset = rests ? g.v * awake : g.v;
    const T g_spike = slow == Slow::kAdaptation ? y_grad + g.w : y_grad;
    const T at_spike = psi * ((rests ? awake * g_spike : g_spike) +
                              g_reset * c.spike_in_reset *
                                  Rule::by_spike(u, theta, p.v_reset));
    const T at_membrane = at_spike + g_reset * Rule::by_membrane(spike);
    const T at_threshold = g_reset * Rule::by_threshold(spike) - at_spike;
    const T at_current = at_membrane * p.gain;
    gp.decay += at_membrane * before.v;
    gp.gain += at_membrane * i;
    gp.threshold += at_threshold;
    if (reset == Reset::kValue) gp.v_reset += g_reset * spike;
    g.v = rests ? mul_add(at_membrane, p.decay, g.v - g_reset) : at_membrane * p.decay;
    if (slow == Slow::kAdaptation) {
      gp.decay_w += g.w * before.w;
      gp.coupling += at_threshold * before.w;
      g.w = mul_add(p.decay_w, g.w, p.coupling * at_threshold);
    }
    if (slow == Slow::kCurrent) {
      const T at_w = at_current + g.w;
      gp.decay_w += at_w * before.w;
      gp.coupling += at_w * x;
      g.w = at_w * p.decay_w;
      return at_w * p.coupling;
    }
    return at_current;
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
      rows[i] = decay;
      rows[stride + i] = gain;
    }
  };

  static T step(State& s, const Parameters& p, T x, const Constants<T>&) {
    s.v = mul_add(p.decay, s.v, p.gain * x);
    return s.v;
  }

  static T reverse(const State& before, const Parameters& p, T x, const Constants<T>&, T,
                   T, T y_grad, State& g, Parameters& gp) {
    const T at_membrane = g.v + y_grad;
    gp.decay += at_membrane * before.v;
    gp.gain += at_membrane * x;
    g.v = at_membrane * p.decay;
    return at_membrane * p.gain;
  }
};

}  // namespace SPIKE_LEVEL
}  // namespace spike
