// The plain C interface of the library: no Python, no C++ in it.
//
// Every array is dense, row-major and of the element type `dtype` names.
// "outer" counts independent sequences stacked in front of the time axis, "lanes"
// the neurons that run side by side. Parameters repeat over the lanes with period
// `features`, so a batch of B sequences over F neurons is B * F lanes.
#pragma once

#include <stdint.h>

#if defined(_WIN32)
#define SPIKE_EXPORT __declspec(dllexport)
#else
#define SPIKE_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  SPIKE_LIF = 0,
  SPIKE_LEAKY_INTEGRATOR = 1,
  SPIKE_ALIF = 2,
  SPIKE_CUBA_LIF = 3,
} spike_model;

typedef enum {
  SPIKE_RESET_NONE = 0,
  SPIKE_RESET_SUBTRACT = 1,
  SPIKE_RESET_VALUE = 2,
} spike_reset;

typedef enum {
  SPIKE_FAST_SIGMOID = 0,
  SPIKE_ATAN = 1,
  SPIKE_SIGMOID = 2,
  SPIKE_TANH = 3,
  SPIKE_ERF = 4,
  SPIKE_EXPONENTIAL = 5,
  SPIKE_TRIANGULAR = 6,
  SPIKE_BOXCAR = 7,
  SPIKE_MULTI_GAUSSIAN = 8,  // shape: height, width
  SPIKE_POWER_LAW = 9,       // shape: exponent
  SPIKE_LOGARITHMIC = 10,
  SPIKE_STRAIGHT_THROUGH = 11,
} spike_surrogate;

typedef enum {
  SPIKE_FLOAT32 = 0,
  SPIKE_FLOAT64 = 1,
} spike_dtype;

typedef enum {
  SPIKE_OK = 0,
  SPIKE_UNKNOWN_NEURON = 1,
  SPIKE_BAD_SHAPE = 2,
  SPIKE_OUT_OF_MEMORY = 3,
} spike_status;

typedef struct {
  int32_t model;         // spike_model
  int32_t reset;         // spike_reset
  int32_t detach_reset;  // 1: no gradient through the spike inside the reset
  int32_t refractory;    // steps of rest after a spike
  int32_t surrogate;     // spike_surrogate
  double slope;          // of the surrogate
  double shape[2];       // what else the surrogate has
} spike_neuron;

typedef struct {
  int64_t outer;
  int64_t steps;
  int64_t lanes;
  int64_t features;  // lanes is a multiple of it
} spike_shape;

typedef struct {
  int64_t outer;
  int64_t rows;
  int64_t inputs;
  int64_t outputs;
} spike_dense_shape;

// Rows of parameters and of state that a neuron has, or -1 for an unknown one.
SPIKE_EXPORT int32_t spike_parameter_count(const spike_neuron* neuron);
SPIKE_EXPORT int32_t spike_state_count(const spike_neuron* neuron);

// The forward pass stores the state before every `spike_border_stride()`-th step.
SPIKE_EXPORT int64_t spike_border_stride(void);

// x [outer, steps, lanes], parameters [outer, P, features], state [outer, S, lanes]
//   -> y [outer, steps, lanes], final_state [outer, S, lanes],
//      borders [outer, ceil(steps / stride), S, lanes], or NULL: not wanted.
SPIKE_EXPORT int32_t spike_forward(const spike_neuron* neuron, int32_t dtype,
                                   const spike_shape* shape, const void* x,
                                   const void* parameters, const void* state, void* y,
                                   void* final_state, void* borders, int32_t threads);

// The reverse: from the cotangents of y and final_state to
//   x_grad, parameter_grads [outer, P, lanes] (one row a lane: the caller sums over
//   the lanes that share a parameter), state_grad [outer, S, lanes].
SPIKE_EXPORT int32_t spike_backward(const spike_neuron* neuron, int32_t dtype,
                                    const spike_shape* shape, const void* x,
                                    const void* parameters, const void* borders,
                                    const void* y_grad, const void* final_state_grad,
                                    void* x_grad, void* parameter_grads,
                                    void* state_grad, int32_t threads);

// A dense layer whose input x [outer, rows, inputs] is mostly zeros:
//   weights [outer, inputs, outputs], bias [outer, outputs]
//     -> y [outer, rows, outputs] = x weights + bias.
// A zero of x adds nothing, whatever its weights, infinite ones included.
SPIKE_EXPORT int32_t spike_dense_forward(int32_t dtype, const spike_dense_shape* shape,
                                         const void* x, const void* weights,
                                         const void* bias, void* y, int32_t threads);

// The reverse with respect to weights and bias; that of x is y_grad weights^T, in which
// nothing can be left out.
SPIKE_EXPORT int32_t spike_dense_backward(int32_t dtype, const spike_dense_shape* shape,
                                          const void* x, const void* y_grad,
                                          void* weights_grad, void* bias_grad,
                                          int32_t threads);

#ifdef __cplusplus
}
#endif
