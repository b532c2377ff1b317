// The one place where the models are compiled.
#include "kernels.h"

namespace spike {

template <class T, class Model>
Kernel<T> kernel_of() {
  return {forward_block<T, Model>, backward_block<T, Model>, forward_scratch<T, Model>(),
          backward_scratch<T, Model>()};
}

template <class T, Reset reset>
Kernel<T> find_lif(const spike_neuron& neuron) {
  if (neuron.detach_reset) return kernel_of<T, Lif<T, reset, true>>();
  return kernel_of<T, Lif<T, reset, false>>();
}

template <class T>
Kernel<T> find_kernel(const spike_neuron& neuron) {
  switch (neuron.model) {
    case SPIKE_LIF:
      switch (neuron.reset) {
        case SPIKE_RESET_NONE: return find_lif<T, Reset::kNone>(neuron);
        case SPIKE_RESET_SUBTRACT: return find_lif<T, Reset::kSubtract>(neuron);
        case SPIKE_RESET_VALUE: return find_lif<T, Reset::kValue>(neuron);
        default: return {};
      }
    case SPIKE_LEAKY_INTEGRATOR: return kernel_of<T, LeakyIntegrator<T>>();
    default: return {};
  }
}

template <class T>
SurrogateRow<T> find_surrogate(int32_t surrogate) {
  switch (surrogate) {
    case SPIKE_FAST_SIGMOID: return fast_sigmoid<T>;
    case SPIKE_ARCTAN: return arctan<T>;
    case SPIKE_TRIANGULAR: return triangular<T>;
    default: return nullptr;
  }
}

template Kernel<float> find_kernel<float>(const spike_neuron&);
template Kernel<double> find_kernel<double>(const spike_neuron&);
template SurrogateRow<float> find_surrogate<float>(int32_t);
template SurrogateRow<double> find_surrogate<double>(int32_t);

}  // namespace spike
