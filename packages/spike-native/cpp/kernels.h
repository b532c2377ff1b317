// From the description of a neuron to the compiled loop that runs it.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "parallel.h"
#include "loops.h"

namespace spike {

// The loops for the best instruction set that this machine has.
template <class T>
Kernel<T> find_kernel(const spike_neuron& neuron);
template <class T>
DenseKernel<T> find_dense_kernel();

inline bool valid(const spike_shape& s) {
  return s.outer >= 0 && s.steps >= 0 && s.lanes >= 0 && s.features > 0 &&
         s.lanes % s.features == 0;
}

// Cuts outer x lanes into blocks and runs them. A lane's arithmetic does not depend on
// its block, so the result is the same for any number of workers.
template <class T, class Args, class Schedule>
spike_status run(const Args& args, void (*kernel)(const Args&, const Block&, T*),
                 int64_t scratch_size, int64_t max_lanes, int64_t workers,
                 Schedule schedule) {
  const spike_shape shape = args.shape;
  if (shape.outer == 0 || shape.lanes == 0) return SPIKE_OK;
  // Small layers: at least a block a worker, in whole cache lines.
  const int64_t a_worker = (shape.outer * shape.lanes + workers - 1) / workers;
  const int64_t lanes = std::min(max_lanes, (a_worker + 15) / 16 * 16);
  const int64_t per_sequence = (shape.lanes + lanes - 1) / lanes;
  const int64_t count = shape.outer * per_sequence;
  workers = std::min(workers, count);
  const auto scratch = std::shared_ptr<T>(
      static_cast<T*>(::operator new[](workers * scratch_size * sizeof(T),
                                       std::align_val_t{64}, std::nothrow)),
      [](T* p) { ::operator delete[](p, std::align_val_t{64}); });
  if (!scratch) return SPIKE_OUT_OF_MEMORY;
  run_blocks(
      count, workers,
      [=](int64_t block, int64_t worker) {
        const int64_t first = block % per_sequence * lanes;
        kernel(args,
               Block{block / per_sequence, first, std::min(lanes, shape.lanes - first)},
               scratch.get() + worker * scratch_size);
      },
      schedule);
  return SPIKE_OK;
}

template <class T, class Schedule>
spike_status run_forward(const Forward<T>& args, int64_t workers, Schedule schedule) {
  const Kernel<T> kernel = find_kernel<T>(args.neuron);
  if (!kernel.forward) return SPIKE_UNKNOWN_NEURON;
  if (!valid(args.shape)) return SPIKE_BAD_SHAPE;
  return run<T>(args, kernel.forward, kernel.forward_scratch, kForwardLanes, workers,
                schedule);
}

template <class T, class Schedule>
spike_status run_backward(Backward<T> args, int64_t workers, Schedule schedule) {
  const Kernel<T> kernel = find_kernel<T>(args.neuron);
  if (!kernel.backward) return SPIKE_UNKNOWN_NEURON;
  args.surrogate = kernel.surrogate;
  if (!valid(args.shape)) return SPIKE_BAD_SHAPE;
  return run<T>(args, kernel.backward, kernel.backward_scratch, kBackwardLanes, workers,
                schedule);
}

inline bool valid(const spike_dense_shape& s) {
  return s.outer >= 0 && s.rows >= 0 && s.inputs >= 0 && s.outputs >= 0;
}

// Blocks do not depend on the number of workers, and neither does a sum.
template <class Args, class Schedule>
spike_status run_dense(const Args& args,
                       void (*kernel)(const Args&, int64_t outer, int64_t block),
                       int64_t per_outer, int64_t workers, Schedule schedule) {
  const int64_t count = args.shape.outer * per_outer;
  if (count == 0) return SPIKE_OK;
  run_blocks(
      count, std::min(workers, count),
      [=](int64_t block, int64_t) { kernel(args, block / per_outer, block % per_outer); },
      schedule);
  return SPIKE_OK;
}

// The weights as `Dense` wants them; null where there is no memory.
template <class T>
std::unique_ptr<T[]> in_strips(const Dense<T>& args) {
  const spike_dense_shape& s = args.shape;
  const int64_t count = s.outer * parts(s.outputs, kDenseLanes) * s.inputs;
  std::unique_ptr<T[]> strips(new (std::nothrow) T[count * kDenseLanes]);
  if (!strips) return strips;
  T* to = strips.get();
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t c = 0; c < s.outputs; c += kDenseLanes) {
      const int64_t n = std::min(kDenseLanes, s.outputs - c);
      for (int64_t i = 0; i < s.inputs; ++i, to += kDenseLanes) {
        const T* row = args.weights + (o * s.inputs + i) * s.outputs + c;
        std::fill(std::copy(row, row + n, to), to + kDenseLanes, T(0));
      }
    }
  return strips;
}

template <class T, class Schedule>
spike_status run_dense_forward(Dense<T> args, int64_t workers, Schedule schedule) {
  const spike_dense_shape& s = args.shape;
  if (!valid(s)) return SPIKE_BAD_SHAPE;
  const std::unique_ptr<T[]> strips = in_strips(args);
  if (!strips) return SPIKE_OUT_OF_MEMORY;
  args.weights = strips.get();
  return run_dense(args, find_dense_kernel<T>().forward, parts(s.rows, kDenseRows), workers,
                   schedule);
}

template <class T, class Schedule>
spike_status run_dense_backward(const DenseGrad<T>& args, int64_t workers,
                                Schedule schedule) {
  const spike_dense_shape& s = args.shape;
  if (!valid(s)) return SPIKE_BAD_SHAPE;
  // Without an input there is still a bias.
  const int64_t tiles =
      std::max<int64_t>(parts(s.inputs, kDenseMask), 1) * parts(s.outputs, kDenseTile);
  return run_dense(args, find_dense_kernel<T>().backward, tiles, workers, schedule);
}

}  // namespace spike
