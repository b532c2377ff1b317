// The same kernels as XLA custom calls, on the thread pool that XLA lends.
//
// Leading dimensions in front of the documented ones are batch dimensions of `vmap`.
#include <string>
#include <utility>

#include "kernels.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;
using namespace spike;

ffi::Error error_of(spike_status status) {
  switch (status) {
    case SPIKE_OK: return ffi::Error::Success();
    case SPIKE_UNKNOWN_NEURON:
      return ffi::Error::InvalidArgument("spike_native: no kernel for this neuron");
    case SPIKE_BAD_SHAPE:
      return ffi::Error::InvalidArgument("spike_native: lanes are no multiple of features");
    case SPIKE_OUT_OF_MEMORY:
      return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                        "spike_native: no memory for the kernel's scratch");
  }
  return ffi::Error::Internal("spike_native: unknown status");
}

// x is [..., steps, lanes], parameters [..., count, features].
ffi::ErrorOr<spike_shape> shape_of(const ffi::AnyBuffer& x,
                                   const ffi::AnyBuffer& parameters) {
  const auto dims = x.dimensions(), parameter_dims = parameters.dimensions();
  if (dims.size() < 2 || parameter_dims.size() != dims.size())
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "spike_native: x must be [..., steps, lanes], parameters [..., count, features]"));
  spike_shape shape{1, dims[dims.size() - 2], dims.back(), parameter_dims.back()};
  for (size_t i = 0; i + 2 < dims.size(); ++i) shape.outer *= dims[i];
  return shape;
}

auto schedule_on(ffi::ThreadPool& pool) {
  // `Schedule` takes only rvalues of a decayed type.
  return [&pool](auto task) { pool.Schedule(std::move(task)); };
}

template <class T>
const T* in(const ffi::AnyBuffer& buffer) {
  return static_cast<const T*>(buffer.untyped_data());
}

template <class T>
T* out(ffi::Result<ffi::AnyBuffer>& buffer) {
  return static_cast<T*>(buffer->untyped_data());
}

using Output = ffi::Result<ffi::AnyBuffer>;

template <class T>
ffi::Error forward(const spike_neuron& neuron, ffi::ThreadPool& pool, ffi::AnyBuffer x,
                   ffi::AnyBuffer parameters, ffi::AnyBuffer state, Output& y,
                   Output& final_state, Output& borders) {
  const auto shape = shape_of(x, parameters);
  if (!shape) return shape.error();
  // A forward pass that is not differentiated asks for no borders.
  T* kept = borders->element_count() == 0 ? nullptr : out<T>(borders);
  const Forward<T> args{*shape, in<T>(x), in<T>(parameters), in<T>(state), out<T>(y),
                        out<T>(final_state), kept, neuron};
  return error_of(run_forward(args, std::max<int64_t>(pool.num_threads(), 1),
                              schedule_on(pool)));
}

template <class T>
ffi::Error backward(const spike_neuron& neuron, ffi::ThreadPool& pool, ffi::AnyBuffer x,
                    ffi::AnyBuffer parameters, ffi::AnyBuffer borders,
                    ffi::AnyBuffer y_grad, ffi::AnyBuffer final_state_grad,
                    Output& x_grad, Output& parameter_grads, Output& state_grad) {
  const auto shape = shape_of(x, parameters);
  if (!shape) return shape.error();
  const Backward<T> args{*shape,
                         in<T>(x),
                         in<T>(parameters),
                         in<T>(borders),
                         in<T>(y_grad),
                         in<T>(final_state_grad),
                         out<T>(x_grad),
                         out<T>(parameter_grads),
                         out<T>(state_grad),
                         neuron,
                         nullptr};
  return error_of(run_backward(args, std::max<int64_t>(pool.num_threads(), 1),
                               schedule_on(pool)));
}

template <class T>
ffi::Error dense_forward(ffi::ThreadPool& pool, const spike_dense_shape& shape,
                         ffi::AnyBuffer x, ffi::AnyBuffer weights, ffi::AnyBuffer bias,
                         Output& y) {
  const Dense<T> args{shape, in<T>(x), in<T>(weights), in<T>(bias), out<T>(y)};
  return error_of(run_dense_forward(args, std::max<int64_t>(pool.num_threads(), 1),
                                    schedule_on(pool)));
}

template <class T>
ffi::Error dense_backward(ffi::ThreadPool& pool, const spike_dense_shape& shape,
                          ffi::AnyBuffer x, ffi::AnyBuffer y_grad, Output& weights_grad,
                          Output& bias_grad) {
  const DenseGrad<T> args{shape, in<T>(x), in<T>(y_grad), out<T>(weights_grad),
                          out<T>(bias_grad)};
  return error_of(run_dense_backward(args, std::max<int64_t>(pool.num_threads(), 1),
                                     schedule_on(pool)));
}

// x is [..., rows, inputs], y [..., rows, outputs].
ffi::ErrorOr<spike_dense_shape> dense_shape_of(const ffi::AnyBuffer& x,
                                               const ffi::AnyBuffer& y) {
  const auto dims = x.dimensions(), y_dims = y.dimensions();
  if (dims.size() < 2 || y_dims.size() != dims.size())
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "spike_native: x must be [..., rows, inputs], y [..., rows, outputs]"));
  spike_dense_shape shape{1, dims[dims.size() - 2], dims.back(), y_dims.back()};
  for (size_t i = 0; i + 2 < dims.size(); ++i) shape.outer *= dims[i];
  return shape;
}

ffi::Error unsupported_dtype() {
  return ffi::Error::InvalidArgument("spike_native: x must be float32 or float64");
}

ffi::Error forward_any(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer parameters,
                       ffi::AnyBuffer state, Output y, Output final_state,
                       Output borders, int32_t model, int32_t reset,
                       int32_t detach_reset, int32_t refractory, int32_t surrogate,
                       double slope, double shape_0, double shape_1) {
  const spike_neuron neuron{model, reset, detach_reset, refractory, surrogate,
                            slope, {shape_0, shape_1}};
  switch (x.element_type()) {
    case ffi::F32:
      return forward<float>(neuron, pool, x, parameters, state, y, final_state, borders);
    case ffi::F64:
      return forward<double>(neuron, pool, x, parameters, state, y, final_state, borders);
    default: return unsupported_dtype();
  }
}

ffi::Error backward_any(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer parameters,
                        ffi::AnyBuffer borders, ffi::AnyBuffer y_grad,
                        ffi::AnyBuffer final_state_grad, Output x_grad,
                        Output parameter_grads, Output state_grad, int32_t model,
                        int32_t reset, int32_t detach_reset, int32_t refractory,
                        int32_t surrogate, double slope,
                        double shape_0, double shape_1) {
  const spike_neuron neuron{model, reset, detach_reset, refractory, surrogate,
                            slope, {shape_0, shape_1}};
  switch (x.element_type()) {
    case ffi::F32:
      return backward<float>(neuron, pool, x, parameters, borders, y_grad,
                             final_state_grad, x_grad, parameter_grads, state_grad);
    case ffi::F64:
      return backward<double>(neuron, pool, x, parameters, borders, y_grad,
                              final_state_grad, x_grad, parameter_grads, state_grad);
    default: return unsupported_dtype();
  }
}

ffi::Error dense_forward_any(ffi::ThreadPool pool, ffi::AnyBuffer x,
                             ffi::AnyBuffer weights, ffi::AnyBuffer bias, Output y) {
  const auto shape = dense_shape_of(x, *y);
  if (!shape) return shape.error();
  switch (x.element_type()) {
    case ffi::F32: return dense_forward<float>(pool, *shape, x, weights, bias, y);
    case ffi::F64: return dense_forward<double>(pool, *shape, x, weights, bias, y);
    default: return unsupported_dtype();
  }
}

ffi::Error dense_backward_any(ffi::ThreadPool pool, ffi::AnyBuffer x,
                              ffi::AnyBuffer y_grad, Output weights_grad,
                              Output bias_grad) {
  const auto shape = dense_shape_of(x, y_grad);
  if (!shape) return shape.error();
  switch (x.element_type()) {
    case ffi::F32:
      return dense_backward<float>(pool, *shape, x, y_grad, weights_grad, bias_grad);
    case ffi::F64:
      return dense_backward<double>(pool, *shape, x, y_grad, weights_grad, bias_grad);
    default: return unsupported_dtype();
  }
}

// What the neurons' bindings end with: the description of the neuron.
template <class Binding>
auto with_neuron(Binding binding) {
  return std::move(binding)
      .template Attr<int32_t>("model")
      .template Attr<int32_t>("reset")
      .template Attr<int32_t>("detach_reset")
      .template Attr<int32_t>("refractory")
      .template Attr<int32_t>("surrogate")
      .template Attr<double>("slope")
      .template Attr<double>("shape_0")
      .template Attr<double>("shape_1");
}

auto forward_binding() {
  return with_neuron(ffi::Ffi::Bind()
                         .Ctx<ffi::ThreadPool>()
                         .Arg<ffi::AnyBuffer>()
                         .Arg<ffi::AnyBuffer>()
                         .Arg<ffi::AnyBuffer>()
                         .Ret<ffi::AnyBuffer>()
                         .Ret<ffi::AnyBuffer>()
                         .Ret<ffi::AnyBuffer>());
}

auto backward_binding() {
  return with_neuron(ffi::Ffi::Bind()
                         .Ctx<ffi::ThreadPool>()
                         .Arg<ffi::AnyBuffer>()
                         .Arg<ffi::AnyBuffer>()
                         .Arg<ffi::AnyBuffer>()
                         .Arg<ffi::AnyBuffer>()
                         .Arg<ffi::AnyBuffer>()
                         .Ret<ffi::AnyBuffer>()
                         .Ret<ffi::AnyBuffer>()
                         .Ret<ffi::AnyBuffer>());
}

auto dense_forward_binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>();
}

auto dense_backward_binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>();
}

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(spike_xla_forward, forward_any, forward_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(spike_xla_backward, backward_any, backward_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(spike_xla_dense_forward, dense_forward_any,
                              dense_forward_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(spike_xla_dense_backward, dense_backward_any,
                              dense_backward_binding());
#pragma GCC visibility pop
