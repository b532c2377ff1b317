// A block of neurons over the whole sequence, forward and in reverse.
//
// A block's state stays in the first-level cache for all T steps. The reverse pass
// stores no membrane of size T: it walks back in chunks of `kStride` steps, each run
// forward again from the state that the forward pass left at its border, inside the
// cache.
#pragma once

#include <algorithm>
#include <cstring>

#include "neurons.h"
#include "surrogates.h"

namespace spike {

constexpr int64_t kStride = 32;          // steps from one border to the next
constexpr int64_t kForwardLanes = 1024;  // one page of float32 a row
constexpr int64_t kBackwardLanes = 256;  // the chunk's scratch stays in the L2 cache

template <class T>
struct Forward {
  spike_shape shape;
  const T *x, *parameters, *state;
  T *y, *final_state, *borders;  // borders may be null
  T refractory;
};

template <class T>
struct Backward {
  spike_shape shape;
  const T *x, *parameters, *borders, *y_grad, *final_state_grad;
  T *x_grad, *parameter_grads, *state_grad;
  T refractory, slope;
  SurrogateRow<T> surrogate;
};

// Lanes `first` to `first + n` of sequence `outer`.
struct Block {
  int64_t outer, first, n;
};

inline int64_t border_count(int64_t steps) { return (steps + kStride - 1) / kStride; }

template <class T>
void copy_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int rows,
               int64_t n) {
  for (int k = 0; k < rows; ++k)
    std::memcpy(to + k * to_stride, from + k * from_stride, n * sizeof(T));
}

// Parameters are stored once a feature; lanes repeat them.
template <class T>
void gather_parameters(const T* from, const spike_shape& shape, const Block& block,
                       T* to, int64_t stride, int rows) {
  for (int k = 0; k < rows; ++k) {
    const T* row = from + (block.outer * rows + k) * shape.features;
    int64_t feature = block.first % shape.features;
    for (int64_t i = 0; i < block.n; ++i) {
      to[k * stride + i] = row[feature];
      if (++feature == shape.features) feature = 0;
    }
  }
}

template <class T, class Model>
int64_t forward_scratch() {
  return (Model::kStates + Model::kParameters) * kForwardLanes;
}

template <class T, class Model>
void forward_block(const Forward<T>& a, const Block& block, T* scratch) {
  constexpr int64_t stride = kForwardLanes;
  const int64_t lanes = a.shape.lanes, steps = a.shape.steps, n = block.n;
  const int64_t borders = border_count(steps);
  T* state = scratch;
  T* parameters = state + Model::kStates * stride;
  const int64_t state_at = block.outer * Model::kStates * lanes + block.first;
  copy_rows(a.state + state_at, lanes, state, stride, Model::kStates, n);
  gather_parameters(a.parameters, a.shape, block, parameters, stride,
                    Model::kParameters);

  for (int64_t t = 0; t < steps; ++t) {
    if (a.borders && t % kStride == 0) {
      const int64_t border = block.outer * borders + t / kStride;
      copy_rows(state, stride, a.borders + border * Model::kStates * lanes + block.first,
                lanes, Model::kStates, n);
    }
    const int64_t at = (block.outer * steps + t) * lanes + block.first;
    const T* x = a.x + at;
    T* y = a.y + at;
SPIKE_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
      auto s = Model::State::load(state, stride, i);
      const auto p = Model::Parameters::load(parameters, stride, i);
      const T signal = Model::step(s, p, x[i], a.refractory);
      s.store(state, stride, i);
      y[i] = Model::kSpikes ? spike_of(signal) : signal;
    }
  }
  copy_rows(state, stride, a.final_state + state_at, lanes, Model::kStates, n);
}

template <class T, class Model>
int64_t backward_scratch() {
  const int64_t rows_a_step = Model::kStates + (Model::kSpikes ? 1 : 0);
  const int64_t fixed_rows = 2 * Model::kStates + 2 * Model::kParameters + 1;
  return (kStride * rows_a_step + fixed_rows) * kBackwardLanes;
}

template <class T, class Model>
void backward_block(const Backward<T>& a, const Block& block, T* scratch) {
  constexpr int64_t stride = kBackwardLanes;
  constexpr int states = Model::kStates;
  const int64_t lanes = a.shape.lanes, steps = a.shape.steps, n = block.n;
  const int64_t borders = border_count(steps);
  T* state = scratch;
  T* state_grad = state + states * stride;
  T* parameters = state_grad + states * stride;
  T* parameter_grads = parameters + Model::kParameters * stride;
  T* psi = parameter_grads + Model::kParameters * stride;
  T* before = psi + stride;                          // [kStride, states, stride]
  T* distances = before + kStride * states * stride;  // [kStride, stride]
  const int64_t state_at = block.outer * states * lanes + block.first;
  copy_rows(a.final_state_grad + state_at, lanes, state_grad, stride, states, n);
  gather_parameters(a.parameters, a.shape, block, parameters, stride,
                    Model::kParameters);
  std::fill(parameter_grads, psi, T(0));

  for (int64_t c = borders - 1; c >= 0; --c) {
    const int64_t begin = c * kStride, length = std::min(kStride, steps - begin);
    const int64_t chunk_at = (block.outer * steps + begin) * lanes + block.first;
    copy_rows(a.borders + (block.outer * borders + c) * states * lanes + block.first,
              lanes, state, stride, states, n);
    for (int64_t t = 0; t < length; ++t) {
      const T* x = a.x + chunk_at + t * lanes;
      T* kept = before + t * states * stride;
      T* distance = distances + t * stride;
SPIKE_INDEPENDENT_LOOP
      for (int64_t i = 0; i < n; ++i) {
        auto s = Model::State::load(state, stride, i);
        const auto p = Model::Parameters::load(parameters, stride, i);
        s.store(kept, stride, i);
        const T signal = Model::step(s, p, x[i], a.refractory);
        s.store(state, stride, i);
        if (Model::kSpikes) distance[i] = signal;
      }
    }
    for (int64_t t = length - 1; t >= 0; --t) {
      const T* x = a.x + chunk_at + t * lanes;
      const T* y_grad = a.y_grad + chunk_at + t * lanes;
      T* x_grad = a.x_grad + chunk_at + t * lanes;
      const T* kept = before + t * states * stride;
      const T* distance = distances + t * stride;
      if (Model::kSpikes) a.surrogate(distance, psi, n, a.slope);
SPIKE_INDEPENDENT_LOOP
      for (int64_t i = 0; i < n; ++i) {
        const auto s = Model::State::load(kept, stride, i);
        const auto p = Model::Parameters::load(parameters, stride, i);
        auto g = Model::State::load(state_grad, stride, i);
        auto gp = Model::Parameters::load(parameter_grads, stride, i);
        x_grad[i] = Model::reverse(s, p, x[i], Model::kSpikes ? distance[i] : T(0),
                                   Model::kSpikes ? psi[i] : T(0), y_grad[i], g, gp);
        g.store(state_grad, stride, i);
        gp.store(parameter_grads, stride, i);
      }
    }
  }
  copy_rows(state_grad, stride, a.state_grad + state_at, lanes, states, n);
  copy_rows(parameter_grads, stride,
            a.parameter_grads + block.outer * Model::kParameters * lanes + block.first,
            lanes, Model::kParameters, n);
}

}  // namespace spike
