// The plain C interface, for callers without XLA; threads are its own.
#include <cstdlib>
#include <thread>
#include <vector>

#include "kernels.h"

namespace spike {

#if SPIKE_HAS_AVX2
// Read once. With SPIKE_NATIVE_BASELINE set, results are those of the oldest machine.
static bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") &&
                          __builtin_cpu_supports("fma") &&
                          !std::getenv("SPIKE_NATIVE_BASELINE");
  return has;
}
#endif

template <>
Kernel<float> find_kernel<float>(const spike_neuron& neuron) {
#if SPIKE_HAS_AVX2
  if (has_avx2()) return avx2::find_float32(neuron);
#endif
  return baseline::find_float32(neuron);
}

template <>
Kernel<double> find_kernel<double>(const spike_neuron& neuron) {
#if SPIKE_HAS_AVX2
  if (has_avx2()) return avx2::find_float64(neuron);
#endif
  return baseline::find_float64(neuron);
}

template <>
DenseKernel<float> find_dense_kernel<float>() {
#if SPIKE_HAS_AVX2
  if (has_avx2()) return avx2::dense_float32();
#endif
  return baseline::dense_float32();
}

template <>
DenseKernel<double> find_dense_kernel<double>() {
#if SPIKE_HAS_AVX2
  if (has_avx2()) return avx2::dense_float64();
#endif
  return baseline::dense_float64();
}

}  // namespace spike

namespace {

using namespace spike;

// Helpers of one call; they are joined before the call returns.
class Threads {
 public:
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  auto schedule() {
    return [this](auto task) { threads_.emplace_back(std::move(task)); };
  }

 private:
  std::vector<std::thread> threads_;
};

template <class T>
spike_status forward(const spike_neuron& neuron, const spike_shape& shape, const void* x,
                     const void* parameters, const void* state, void* y,
                     void* final_state, void* borders, int64_t workers) {
  const Forward<T> args{shape,
                        static_cast<const T*>(x),
                        static_cast<const T*>(parameters),
                        static_cast<const T*>(state),
                        static_cast<T*>(y),
                        static_cast<T*>(final_state),
                        static_cast<T*>(borders),
                        neuron};
  Threads threads;
  return run_forward(args, workers, threads.schedule());
}

template <class T>
spike_status backward(const spike_neuron& neuron, const spike_shape& shape,
                      const void* x, const void* parameters, const void* borders,
                      const void* y_grad, const void* final_state_grad, void* x_grad,
                      void* parameter_grads, void* state_grad, int64_t workers) {
  const Backward<T> args{shape,
                         static_cast<const T*>(x),
                         static_cast<const T*>(parameters),
                         static_cast<const T*>(borders),
                         static_cast<const T*>(y_grad),
                         static_cast<const T*>(final_state_grad),
                         static_cast<T*>(x_grad),
                         static_cast<T*>(parameter_grads),
                         static_cast<T*>(state_grad),
                         neuron,
                         nullptr};
  Threads threads;
  return run_backward(args, workers, threads.schedule());
}

template <class T>
spike_status dense_forward(const spike_dense_shape& shape, const void* x,
                           const void* weights, const void* bias, void* y,
                           int64_t workers) {
  const Dense<T> args{shape, static_cast<const T*>(x), static_cast<const T*>(weights),
                      static_cast<const T*>(bias), static_cast<T*>(y)};
  Threads threads;
  return run_dense_forward(args, workers, threads.schedule());
}

template <class T>
spike_status dense_backward(const spike_dense_shape& shape, const void* x,
                            const void* y_grad, void* weights_grad, void* bias_grad,
                            int64_t workers) {
  const DenseGrad<T> args{shape, static_cast<const T*>(x),
                          static_cast<const T*>(y_grad), static_cast<T*>(weights_grad),
                          static_cast<T*>(bias_grad)};
  Threads threads;
  return run_dense_backward(args, workers, threads.schedule());
}

}  // namespace

extern "C" {

int32_t spike_parameter_count(const spike_neuron* neuron) {
  return find_kernel<float>(*neuron).parameters;
}

int32_t spike_state_count(const spike_neuron* neuron) {
  return find_kernel<float>(*neuron).states;
}

int64_t spike_border_stride(void) { return kStride; }

int32_t spike_forward(const spike_neuron* neuron, int32_t dtype, const spike_shape* shape,
                      const void* x, const void* parameters, const void* state, void* y,
                      void* final_state, void* borders, int32_t threads) {
  const auto call = dtype == SPIKE_FLOAT64 ? forward<double> : forward<float>;
  return call(*neuron, *shape, x, parameters, state, y, final_state, borders,
              std::max(threads, 1));
}

int32_t spike_backward(const spike_neuron* neuron, int32_t dtype,
                       const spike_shape* shape, const void* x, const void* parameters,
                       const void* borders, const void* y_grad,
                       const void* final_state_grad, void* x_grad, void* parameter_grads,
                       void* state_grad, int32_t threads) {
  const auto call = dtype == SPIKE_FLOAT64 ? backward<double> : backward<float>;
  return call(*neuron, *shape, x, parameters, borders, y_grad, final_state_grad, x_grad,
              parameter_grads, state_grad, std::max(threads, 1));
}

int32_t spike_dense_forward(int32_t dtype, const spike_dense_shape* shape, const void* x,
                            const void* weights, const void* bias, void* y,
                            int32_t threads) {
  const auto call = dtype == SPIKE_FLOAT64 ? dense_forward<double> : dense_forward<float>;
  return call(*shape, x, weights, bias, y, std::max(threads, 1));
}

int32_t spike_dense_backward(int32_t dtype, const spike_dense_shape* shape, const void* x,
                             const void* y_grad, void* weights_grad, void* bias_grad,
                             int32_t threads) {
  const auto call = dtype == SPIKE_FLOAT64 ? dense_backward<double> : dense_backward<float>;
  return call(*shape, x, y_grad, weights_grad, bias_grad, std::max(threads, 1));
}

}  // extern "C"
