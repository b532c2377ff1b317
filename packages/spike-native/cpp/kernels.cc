// The one place where the models are compiled.
#include "kernels.h"

namespace spike {

template <class T, class Model>
Kernel<T> kernel_of() {
  return {forward_block<T, Model>,       backward_block<T, Model>,
          forward_scratch<T, Model>(),   backward_scratch<T, Model>(),
          Model::kParameters,            Model::kStates};
}

template <class T, Reset reset, bool detach>
Kernel<T> find_lif(const spike_neuron& neuron) {
  if (neuron.refractory) return kernel_of<T, Lif<T, reset, detach, true>>();
  return kernel_of<T, Lif<T, reset, detach, false>>();
}

template <class T, Reset reset>
Kernel<T> find_lif(const spike_neuron& neuron) {
  if (neuron.detach_reset) return find_lif<T, reset, true>(neuron);
  return find_lif<T, reset, false>(neuron);
}

template <class T>
Kernel<T> find_kernel(const spike_neuron& neuron) {
  switch (neuron.model) {
    case SPIKE_LIF:
      switch (neuron.reset) {
        // Without a reset there is nothing to detach.
        case SPIKE_RESET_NONE: return find_lif<T, Reset::kNone, true>(neuron);
        case SPIKE_RESET_SUBTRACT: return find_lif<T, Reset::kSubtract>(neuron);
        case SPIKE_RESET_VALUE: return find_lif<T, Reset::kValue>(neuron);
        case SPIKE_RESET_ZERO: return find_lif<T, Reset::kZero>(neuron);
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
    case SPIKE_ATAN: return atan<T>;
    default: return nullptr;
  }
}

template Kernel<float> find_kernel<float>(const spike_neuron&);
template Kernel<double> find_kernel<double>(const spike_neuron&);
template SurrogateRow<float> find_surrogate<float>(int32_t);
template SurrogateRow<double> find_surrogate<double>(int32_t);

}  // namespace spike
