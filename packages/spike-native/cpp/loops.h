// What a compiled loop takes, and where it is found: the border between code that is
// compiled once for each instruction set and code that is compiled once.
#pragma once

#include <cstdint>

#include "spike_native.h"

namespace spike {

constexpr int64_t kStride = 32;             // steps from one border to the next
constexpr int64_t kForwardLanes = 1024;     // one page of float32 a row
constexpr int64_t kBackwardLanes = 256;     // a chunk's scratch stays in the L2 cache
constexpr int64_t kStreamBytes = 16 << 20;  // of an output that no cache will keep
constexpr int64_t kDenseRows = 64;          // of a dense layer's input in one task
constexpr int64_t kDenseMask = 64;          // inputs whose activity one mask holds
constexpr int64_t kDenseInputs = 256;       // rows of a strip at a time: the L1 cache
constexpr int64_t kDenseLanes = 32;         // outputs of a strip of the weights
constexpr int64_t kDenseTile = 128;         // outputs of one task in reverse

inline int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

template <class T>
struct SurrogateShape {
  T slope, shape[2];
};

template <class T>
using SurrogateRow = void (*)(const T* distance, T* out, int64_t n,
                              const SurrogateShape<T>& shape);

template <class T>
struct Forward {
  spike_shape shape;
  const T *x, *parameters, *state;
  T *y, *final_state, *borders;  // borders may be null
  spike_neuron neuron;
};

template <class T>
struct Backward {
  spike_shape shape;
  const T *x, *parameters, *borders, *y_grad, *final_state_grad;
  T *x_grad, *parameter_grads, *state_grad;
  spike_neuron neuron;
  SurrogateRow<T> surrogate;
};

// Lanes `first` to `first + n` of sequence `outer`.
struct Block {
  int64_t outer, first, n;
};

template <class T>
struct Kernel {
  void (*forward)(const Forward<T>&, const Block&, T* scratch);
  void (*backward)(const Backward<T>&, const Block&, T* scratch);
  SurrogateRow<T> surrogate;
  int64_t forward_scratch, backward_scratch;  // in elements
  int parameters, states;                     // rows
};

// Weights lie in strips, [outer, strips, inputs, kDenseLanes], the last one padded.
template <class T>
struct Dense {
  spike_dense_shape shape;
  const T *x, *weights, *bias;
  T* y;
};

template <class T>
struct DenseGrad {
  spike_dense_shape shape;
  const T *x, *y_grad;
  T *weights_grad, *bias_grad;
};

template <class T>
struct DenseKernel {
  void (*forward)(const Dense<T>&, int64_t outer, int64_t block);
  void (*backward)(const DenseGrad<T>&, int64_t outer, int64_t block);
};

// An unknown neuron has null pointers and -1 rows.
#define SPIKE_DECLARE_LEVEL(level)                      \
  namespace level {                                     \
  Kernel<float> find_float32(const spike_neuron&);      \
  Kernel<double> find_float64(const spike_neuron&);     \
  DenseKernel<float> dense_float32();                   \
  DenseKernel<double> dense_float64();                  \
  }
SPIKE_DECLARE_LEVEL(baseline)
SPIKE_DECLARE_LEVEL(avx2)
#undef SPIKE_DECLARE_LEVEL

}  // namespace spike
