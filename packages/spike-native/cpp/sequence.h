// A block of neurons over the whole sequence, forward and in reverse.
//
// A block's state stays in the first-level cache for all T steps, and is carried through
// `kRows` steps at a time in registers. The reverse pass stores nothing of size T: it
// walks back in chunks of `kStride` steps, each run forward again, inside the cache,
// from the state that the forward pass left at its border. What it needs of a chunk's
// input is copied to the scratch on the way: rows of x lie a power of two apart for the
// usual sizes, fall into the same few cache sets and push each other out.
#pragma once

#include <algorithm>

#include "loops.h"
#include "neurons.h"
#include "rows.h"
#include "surrogates.h"

namespace spike {
namespace SPIKE_LEVEL {

template <class T>
constexpr int kRows = sizeof(T) == 4 ? 4 : 1;
static_assert(kStride % kRows<float> == 0, "rows do not straddle a border");

inline int64_t border_count(int64_t steps) { return parts(steps, kStride); }

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

template <class T>
Constants<T> constants_of(const spike_neuron& neuron) {
  return {static_cast<T>(neuron.refractory), neuron.detach_reset ? T(0) : T(1)};
}

// The next row begins on another page, where no hardware prefetcher follows.
template <class T>
void prefetch_rows(const T* row, int64_t lanes, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; i += 64 / sizeof(T)) __builtin_prefetch(row + r * lanes + i);
}

// Whether what a kernel writes, of the shape of its input, is streamed to memory. Where
// it cannot be, the detour over the scratch would only cost time.
template <class T>
bool streams(const spike_shape& s, const T* to) {
  const int64_t size = s.outer * s.steps * s.lanes * static_cast<int64_t>(sizeof(T));
  return size >= kStreamBytes && can_stream(to, s.lanes);
}

template <class T, class Model>
int64_t forward_scratch() {
  return (Model::kStates + Model::kParameters + kRows<T>) * kForwardLanes;
}

template <class T, class Model, int rows>
void forward_rows(const T* x, int64_t lanes, T* y, int64_t y_stride, int64_t n, T* state,
                  const T* parameters, const Constants<T>& c) {
  constexpr int64_t stride = kForwardLanes;
  SPIKE_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    auto s = Model::State::load(state, stride, i);
    const auto p = Model::Parameters::load(parameters, stride, i);
    SPIKE_UNROLLED
    for (int r = 0; r < rows; ++r) {
      const T signal = Model::step(s, p, x[r * lanes + i], c);
      y[r * y_stride + i] = Model::kSpikes ? spike_of(signal) : signal;
    }
    s.store(state, stride, i);
  }
}

template <class T, class Model>
void forward_block(const Forward<T>& a, const Block& block, T* scratch) {
  constexpr int64_t stride = kForwardLanes;
  const int64_t lanes = a.shape.lanes, steps = a.shape.steps, n = block.n;
  const int64_t borders = border_count(steps);
  const Constants<T> c = constants_of<T>(a.neuron);
  T* state = scratch;
  T* parameters = state + Model::kStates * stride;
  T* out = parameters + Model::kParameters * stride;  // [kRows<T>, stride], to be streamed
  const bool stream = streams(a.shape, a.y);
  const int64_t state_at = block.outer * Model::kStates * lanes + block.first;
  copy_rows(a.state + state_at, lanes, state, stride, Model::kStates, n);
  gather_parameters(a.parameters, a.shape, block, parameters, stride,
                    Model::kParameters);

  for (int64_t t = 0; t < steps;) {
    if (a.borders && t % kStride == 0) {
      const int64_t border = block.outer * borders + t / kStride;
      copy_rows(state, stride, a.borders + border * Model::kStates * lanes + block.first,
                lanes, Model::kStates, n);
    }
    const int64_t at = (block.outer * steps + t) * lanes + block.first;
    const T* x = a.x + at;
    T* y = stream ? out : a.y + at;
    const int64_t y_stride = stream ? stride : lanes;
    const int rows = t + kRows<T> <= steps ? kRows<T> : 1;
    t += rows;
    if (rows == kRows<T>) {
      prefetch_rows(x + rows * lanes, lanes, std::min<int64_t>(rows, steps - t), n);
      forward_rows<T, Model, kRows<T>>(x, lanes, y, y_stride, n, state, parameters, c);
    } else {
      forward_rows<T, Model, 1>(x, lanes, y, y_stride, n, state, parameters, c);
    }
    if (stream) stream_rows(out, stride, a.y + at, lanes, rows, n);
  }
  if (stream) end_of_stream();
  copy_rows(state, stride, a.final_state + state_at, lanes, Model::kStates, n);
}

// What the reverse pass keeps of a step: the state before it, its input, its signal.
template <class Model>
struct Kept {
  static constexpr int64_t kX = Model::kStates;
  static constexpr int64_t kSignal = Model::kStates + 1;
  static constexpr int64_t kCount = Model::kStates + 2;
};

template <class T, class Model>
int64_t backward_scratch() {
  const int64_t fixed = 2 * Model::kStates + 2 * Model::kParameters + kRows<T>;
  return (kStride * Kept<Model>::kCount + fixed) * kBackwardLanes;
}

template <class T, class Model, int rows>
void again_rows(const T* x, int64_t lanes, int64_t n, T* state, const T* parameters,
                T* kept, const Constants<T>& c) {
  constexpr int64_t stride = kBackwardLanes;
  using K = Kept<Model>;
  SPIKE_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    auto s = Model::State::load(state, stride, i);
    const auto p = Model::Parameters::load(parameters, stride, i);
    SPIKE_UNROLLED
    for (int r = 0; r < rows; ++r) {
      T* step = kept + r * K::kCount * stride;
      const T input = x[r * lanes + i];
      s.store(step, stride, i);
      step[K::kX * stride + i] = input;
      step[K::kSignal * stride + i] = Model::step(s, p, input, c);
    }
    s.store(state, stride, i);
  }
}

template <class T, class Model, int rows>
void reverse_rows(const T* kept, const T* psi, const T* y_grad, int64_t lanes, T* x_grad,
                  int64_t x_stride, int64_t n, T* state_grad, const T* parameters,
                  T* parameter_grads, const Constants<T>& c) {
  constexpr int64_t stride = kBackwardLanes;
  using K = Kept<Model>;
  SPIKE_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const auto p = Model::Parameters::load(parameters, stride, i);
    auto g = Model::State::load(state_grad, stride, i);
    auto gp = Model::Parameters::load(parameter_grads, stride, i);
    SPIKE_UNROLLED
    for (int r = rows - 1; r >= 0; --r) {
      const T* step = kept + r * K::kCount * stride;
      const auto s = Model::State::load(step, stride, i);
      x_grad[r * x_stride + i] =
          Model::reverse(s, p, step[K::kX * stride + i], c, step[K::kSignal * stride + i],
                         Model::kSpikes ? psi[r * stride + i] : T(0),
                         y_grad[r * lanes + i], g, gp);
    }
    g.store(state_grad, stride, i);
    gp.store(parameter_grads, stride, i);
  }
}

template <class T, class Model>
void backward_block(const Backward<T>& a, const Block& block, T* scratch) {
  constexpr int64_t stride = kBackwardLanes;
  constexpr int states = Model::kStates;
  constexpr int64_t step_size = Kept<Model>::kCount * stride;
  const int64_t lanes = a.shape.lanes, steps = a.shape.steps, n = block.n;
  const int64_t borders = border_count(steps);
  const bool stream = streams(a.shape, a.x_grad);
  const Constants<T> c = constants_of<T>(a.neuron);
  const SurrogateShape<T> shape = {
      static_cast<T>(a.neuron.slope),
      {static_cast<T>(a.neuron.shape[0]), static_cast<T>(a.neuron.shape[1])}};
  T* state = scratch;
  T* state_grad = state + states * stride;
  T* parameters = state_grad + states * stride;
  T* parameter_grads = parameters + Model::kParameters * stride;
  T* psi = parameter_grads + Model::kParameters * stride;  // [kRows<T>, stride]
  T* kept = psi + kRows<T> * stride;                          // [kStride, step_size]
  const int64_t state_at = block.outer * states * lanes + block.first;
  copy_rows(a.final_state_grad + state_at, lanes, state_grad, stride, states, n);
  gather_parameters(a.parameters, a.shape, block, parameters, stride,
                    Model::kParameters);
  std::fill(parameter_grads, psi, T(0));

  for (int64_t chunk = borders - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kStride, length = std::min(kStride, steps - begin);
    const int64_t whole = length / kRows<T> * kRows<T>;  // these go kRows<T> at a time
    const int64_t chunk_at = (block.outer * steps + begin) * lanes + block.first;
    const T* border = a.borders + (block.outer * borders + chunk) * states * lanes;
    copy_rows(border + block.first, lanes, state, stride, states, n);
    for (int64_t t = 0; t < length;) {
      const T* x = a.x + chunk_at + t * lanes;
      T* at = kept + t * step_size;
      if (t < whole) {
        t += kRows<T>;
        prefetch_rows(x + kRows<T> * lanes, lanes, std::min<int64_t>(kRows<T>, length - t), n);
        again_rows<T, Model, kRows<T>>(x, lanes, n, state, parameters, at, c);
      } else {
        t += 1;
        again_rows<T, Model, 1>(x, lanes, n, state, parameters, at, c);
      }
    }
    for (int64_t t = length; t > 0;) {
      const int rows = t > whole ? 1 : kRows<T>;
      t -= rows;
      const T* at = kept + t * step_size;
      const T* y_grad = a.y_grad + chunk_at + t * lanes;
      if (Model::kSpikes)
        for (int64_t r = 0; r < rows; ++r)
          a.surrogate(at + r * step_size + Kept<Model>::kSignal * stride,
                      psi + r * stride, n, shape);
      // A neuron's psi has been read when its gradient is written in the same place.
      T* x_grad = stream ? psi : a.x_grad + chunk_at + t * lanes;
      const int64_t x_stride = stream ? stride : lanes;
      if (rows == kRows<T>) {
        const int64_t before = std::min<int64_t>(kRows<T>, t);
        prefetch_rows(y_grad - before * lanes, lanes, before, n);
        reverse_rows<T, Model, kRows<T>>(at, psi, y_grad, lanes, x_grad, x_stride, n,
                                         state_grad, parameters, parameter_grads, c);
      } else {
        reverse_rows<T, Model, 1>(at, psi, y_grad, lanes, x_grad, x_stride, n, state_grad,
                                  parameters, parameter_grads, c);
      }
      if (stream)
        stream_rows(psi, stride, a.x_grad + chunk_at + t * lanes, lanes, rows, n);
    }
  }
  if (stream) end_of_stream();
  copy_rows(state_grad, stride, a.state_grad + state_at, lanes, states, n);
  copy_rows(parameter_grads, stride,
            a.parameter_grads + block.outer * Model::kParameters * lanes + block.first,
            lanes, Model::kParameters, n);
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
