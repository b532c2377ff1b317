// Blocks of work shared between the calling thread and helpers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace spike {

// Decaying membranes end in denormals, which cost a hundred cycles each; XLA's own
// code flushes them as well.
class FlushDenormals {
 public:
#if defined(__SSE__) || defined(_M_X64)
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(saved_ | (uint64_t{1} << 24)));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  uint64_t saved_;
#endif
};

// Runs `body(block, worker)` for every block in [0, count); worker < workers.
//
// `schedule(task)` starts a helper some time, or never: the caller takes blocks from
// the same counter and waits only for blocks that some helper has already taken, so a
// pool whose threads are all busy with waiting callers cannot lock up. A helper that
// starts too late finds no block left and touches nothing but `Shared`.
template <class Schedule>
void run_blocks(int64_t count, int64_t workers,
                std::function<void(int64_t block, int64_t worker)> body,
                Schedule schedule) {
  struct Shared {
    std::function<void(int64_t, int64_t)> body;
    int64_t count;
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> finished{0};
    std::mutex mutex;
    std::condition_variable all_finished;

    void work(int64_t worker) {
      FlushDenormals flush;
      for (int64_t block; (block = next.fetch_add(1)) < count;) {
        body(block, worker);
        if (finished.fetch_add(1) + 1 == count) {
          std::lock_guard<std::mutex> lock(mutex);
          all_finished.notify_all();
        }
      }
    }
  };
  auto shared = std::make_shared<Shared>();
  shared->body = std::move(body);
  shared->count = count;
  for (int64_t worker = 1; worker < workers; ++worker)
    schedule([shared, worker] { shared->work(worker); });
  shared->work(0);
  for (int spin = 0; spin < 4096; ++spin)  // helpers are nearly done as well
    if (shared->finished.load() == count) return;
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->all_finished.wait(lock, [&] { return shared->finished.load() == count; });
}

}  // namespace spike
