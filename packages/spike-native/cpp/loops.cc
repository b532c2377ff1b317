// The models, compiled for one instruction set: `SPIKE_LEVEL` names it.
//
// Everything here lies in a namespace of that name and uses no inline function of the
// C++ library that could be emitted as a shared copy: the linker keeps one copy of such
// a function, and it might be the one that the oldest machine cannot run.
#include "dense.h"
#include "sequence.h"

namespace spike {
namespace SPIKE_LEVEL {
namespace {

template <class T>
SurrogateRow<T> find_surrogate(int32_t surrogate) {
  switch (surrogate) {
    case SPIKE_FAST_SIGMOID: return fast_sigmoid<T>;
    case SPIKE_ATAN: return atan<T>;
    case SPIKE_SIGMOID: return sigmoid<T>;
    case SPIKE_TANH: return tanh<T>;
    case SPIKE_ERF: return erf<T>;
    case SPIKE_EXPONENTIAL: return exponential<T>;
    case SPIKE_TRIANGULAR: return triangular<T>;
    case SPIKE_BOXCAR: return boxcar<T>;
    case SPIKE_MULTI_GAUSSIAN: return multi_gaussian<T>;
    case SPIKE_POWER_LAW: return power_law<T>;
    case SPIKE_LOGARITHMIC: return logarithmic<T>;
    case SPIKE_STRAIGHT_THROUGH: return straight_through<T>;
    default: return nullptr;
  }
}

template <class T, class Model>
Kernel<T> kernel_of(const spike_neuron& neuron) {
  const SurrogateRow<T> surrogate = find_surrogate<T>(neuron.surrogate);
  if (!surrogate) return {nullptr, nullptr, nullptr, 0, 0, -1, -1};
  return {forward_block<T, Model>,
          backward_block<T, Model>,
          surrogate,
          forward_scratch<T, Model>(),
          backward_scratch<T, Model>(),
          Model::kParameters,
          Model::kStates};
}

template <class T, Slow slow, Reset reset>
Kernel<T> find_lif(const spike_neuron& neuron) {
  if (neuron.refractory) return kernel_of<T, Lif<T, slow, reset, true>>(neuron);
  return kernel_of<T, Lif<T, slow, reset, false>>(neuron);
}

template <class T, Slow slow>
Kernel<T> find_lif(const spike_neuron& neuron) {
  switch (neuron.reset) {
    case SPIKE_RESET_NONE: return find_lif<T, slow, Reset::kNone>(neuron);
    case SPIKE_RESET_SUBTRACT: return find_lif<T, slow, Reset::kSubtract>(neuron);
    case SPIKE_RESET_VALUE: return find_lif<T, slow, Reset::kValue>(neuron);
    default: return {nullptr, nullptr, nullptr, 0, 0, -1, -1};
  }
}

template <class T>
Kernel<T> find(const spike_neuron& neuron) {
  switch (neuron.model) {
    case SPIKE_LIF: return find_lif<T, Slow::kNone>(neuron);
    case SPIKE_ALIF: return find_lif<T, Slow::kAdaptation>(neuron);
    case SPIKE_CUBA_LIF: return find_lif<T, Slow::kCurrent>(neuron);
    case SPIKE_LEAKY_INTEGRATOR: return kernel_of<T, LeakyIntegrator<T>>(neuron);
    default: return {nullptr, nullptr, nullptr, 0, 0, -1, -1};
  }
}

}  // namespace

Kernel<float> find_float32(const spike_neuron& neuron) { return find<float>(neuron); }
Kernel<double> find_float64(const spike_neuron& neuron) { return find<double>(neuron); }
DenseKernel<float> dense_float32() {
  return {dense_forward_block<float>, dense_backward_block<float>};
}
DenseKernel<double> dense_float64() {
  return {dense_forward_block<double>, dense_backward_block<double>};
}

}  // namespace SPIKE_LEVEL
}  // namespace spike
