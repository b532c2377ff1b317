// The C interface: the choice of an instruction set, the conversion of parameters, and
// threads. `src/amica_native/_library.py` mirrors `AmicaProblem` and the functions.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "task.h"

#if defined(_WIN32)
#define AMICA_API extern "C" __declspec(dllexport)
#else
#define AMICA_API extern "C" __attribute__((visibility("default")))
#endif

extern const Kernels amica_kernels_baseline;
#if defined(AMICA_HAS_AVX2)
extern const Kernels amica_kernels_avx2;
#endif
#if defined(AMICA_HAS_AVX512)
extern const Kernels amica_kernels_avx512;
#endif

namespace {

constexpr int64_t alignment = 64;
constexpr int64_t largest_block = 512;
constexpr int64_t smallest_block = 128;
// Samples are summed in at most this many pieces, whatever the number of threads, and
// the pieces are added in order: that makes the result independent of it.
constexpr int64_t most_pieces = 64;
constexpr int64_t piece_memory = int64_t(64) << 20;

enum Status { ok = 0, out_of_memory = 1, unknown_instruction_set = 2 };

struct InstructionSet {
  const char* name;
  const Kernels* kernels;
  bool (*runs_here)();
};

bool always() { return true; }

#if defined(AMICA_HAS_AVX2) || defined(AMICA_HAS_AVX512)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

// From the best to the one that always runs.
const InstructionSet instruction_sets[] = {
#if defined(AMICA_HAS_AVX512)
    {"avx512", &amica_kernels_avx512, has_avx512},
#endif
#if defined(AMICA_HAS_AVX2)
    {"avx2", &amica_kernels_avx2, has_avx2},
#endif
    {"baseline", &amica_kernels_baseline, always},
};

const InstructionSet* best_instruction_set() {
  const InstructionSet* set = instruction_sets;
  while (!set->runs_here()) ++set;
  return set;
}

std::atomic<const InstructionSet*>& chosen() {
  static std::atomic<const InstructionSet*> set{best_instruction_set()};
  return set;
}

}  // namespace

// Shapes are in `_statistics.py`; arrays are C-contiguous.
struct AmicaProblem {
  int64_t n_components, n_samples, n_models, n_terms;
  int64_t x_stride;
  const void* x;
  const uint8_t* kept;
  const double *unmixing, *offset, *log_weight, *log_scale, *mu, *beta, *rho;
  const int64_t* density;
  int64_t single, newton, kurtosis, fortran, n_threads, block;
  double* record;
  double* joint;
};

namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Memory for vectors: starts at a cache line and is left as it comes.
template <class T>
class Aligned {
 public:
  explicit Aligned(int64_t count)
      : memory_(new char[count * sizeof(T) + alignment]) {}
  T* get() const {
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    return reinterpret_cast<T*>((address + alignment - 1) / alignment * alignment);
  }

 private:
  std::unique_ptr<char[]> memory_;
};

Shape shape_of(int64_t density, double rho) {
  switch (density) {
    case 1: return Shape::super_gaussian;
    case 2: return Shape::gaussian;
    case 3: return Shape::logistic;
    case 4: return Shape::sub_gaussian;
    default: return rho == 1 ? Shape::laplace : rho == 2 ? Shape::normal : Shape::power;
  }
}

// f / y where y = 0, in units of the score's scale: its limit, or 0 where that is
// infinite.
double slope_at_zero(Shape shape) {
  switch (shape) {
    case Shape::normal:
    case Shape::gaussian: return 1;
    case Shape::logistic: return 0.5;
    case Shape::super_gaussian: return 2;
    default: return 0;
  }
}

template <class T>
Term<T> make_term(const AmicaProblem& p, int64_t source, int64_t j) {
  const int64_t k = source * p.n_terms + j;
  Term<T> term;
  term.shape = shape_of(p.density[source], p.rho[k]);
  const bool type_0 = p.density[source] == 0;
  term.log_scale = T(p.log_scale[k] / std::log(2.0));
  term.mu = T(p.mu[k]);
  term.beta = T(p.beta[k]);
  term.rho = T(p.rho[k]);
  term.score_scale = type_0 ? T(p.rho[k]) : T(1);
  term.score_at_zero = 0;
  term.slope_at_zero = T(slope_at_zero(term.shape));
  if (p.fortran) {
    const bool laplace = term.shape == Shape::laplace;
    term.score_at_zero = laplace ? T(1) : T(0);
    term.slope_at_zero = laplace ? T(HUGE_VAL) : T(NAN);
    if (term.shape == Shape::power) term.shape = Shape::literal_power;
  }
  term.squares = p.newton || (type_0 && p.rho[k] > 2);
  return term;
}

// Panels of `unmix_rows` rows, each stored column by column; missing rows are 0.
template <class T>
void pack_unmixing(const double* w, int64_t n, T* packed) {
  for (int64_t top = 0; top < n; top += unmix_rows)
    for (int64_t k = 0; k < n; ++k)
      for (int r = 0; r < unmix_rows; ++r)
        *packed++ = top + r < n ? T(w[(top + r) * n + k]) : T(0);
}

// Short enough that what waits for the posteriors of several models stays in cache.
int64_t choose_block(const Layout& layout, int64_t element) {
  const int64_t target = int64_t(2) << 20;
  int64_t block = largest_block;
  while (block > smallest_block && workspace_rows(layout) * block * element > target) block /= 2;
  return block;
}

// Turn sums in units of score_scale into the sums that the interface promises.
template <class T>
void finish(const AmicaProblem& p, const Layout& layout, const std::vector<Term<T>>& terms,
            double* record) {
  for (size_t k = 0; k < terms.size(); ++k) {
    const bool type_0 = p.density[k / layout.terms] == 0;
    const double scale = type_0 ? p.rho[k] : 1;
    double* sums[n_term_sums];
    for (int s = 0; s < n_term_sums; ++s) sums[s] = record + layout.term_sum(s) + k;
    *sums[score_deviation] = scale * scale * *sums[score_deviation] -
                             2 * scale * *sums[score_times_y] + *sums[mass];
    *sums[score_square] *= scale * scale;
    *sums[score] *= scale;
    if (type_0 && p.rho[k] > 2) {
      *sums[score_over_y] = *sums[score_square];
    } else {
      *sums[score_over_y] *= scale;
      *sums[score_times_y] *= scale;
    }
    *sums[power_log_power] *= type_0 ? p.rho[k] * std::log(2.0) : 0;
  }
}

// 0, or NaN where a sample or a parameter is not finite: the kernels' logarithm would
// take NaN for a number. `log_scale` and `log_weight` may be -infinity and are only added.
double not_finite(const AmicaProblem& p, const Layout& layout) {
  const int64_t sources = layout.models * layout.n, terms = sources * layout.terms;
  double sum = 0;
  auto add = [&sum](const double* values, int64_t count) {
    for (int64_t k = 0; k < count; ++k) sum += 0 * values[k];
  };
  add(p.record + layout.weighted_x(), sources);
  add(p.unmixing, sources * layout.n);
  add(p.offset, sources);
  add(p.mu, terms);
  add(p.beta, terms);
  add(p.rho, terms);
  return sum;
}

void run_kernel(const Task<float>& task, float* memory, int64_t first, int64_t last,
                double* record) {
  chosen().load()->kernels->run_float(task, memory, first, last, record);
}

void run_kernel(const Task<double>& task, double* memory, int64_t first, int64_t last,
                double* record) {
  chosen().load()->kernels->run_double(task, memory, first, last, record);
}

template <class T>
void compute(const AmicaProblem& p) {
  const Layout layout{p.n_components, p.n_models, p.n_terms};
  const int64_t n = layout.n, sources = layout.models * n;
  const int64_t panels = round_up(n, unmix_rows);

  std::vector<Term<T>> terms;
  terms.reserve(sources * layout.terms);
  for (int64_t source = 0; source < sources; ++source)
    for (int64_t j = 0; j < layout.terms; ++j) terms.push_back(make_term<T>(p, source, j));
  std::vector<T> unmixing(layout.models * panels * n);
  std::vector<T> offset(p.offset, p.offset + sources), log2_weight(layout.models);
  for (int64_t h = 0; h < layout.models; ++h) {
    pack_unmixing(p.unmixing + h * n * n, n, unmixing.data() + h * panels * n);
    log2_weight[h] = T(p.log_weight[h] / std::log(2.0));
  }

  Task<T> task;
  task.layout = layout;
  task.block = p.block > 0 ? round_up(p.block, row_multiple) : choose_block(layout, sizeof(T));
  // A row more than a power of two apart from the next would share its cache sets.
  task.ld = task.block + int64_t(64 / sizeof(T));
  task.x = static_cast<const T*>(p.x);
  task.x_stride = p.x_stride;
  task.kept = p.kept;
  task.unmixing = unmixing.data();
  task.offset = offset.data();
  task.log2_weight = log2_weight.data();
  task.terms = terms.data();
  task.moments = p.newton || p.kurtosis;
  task.joint = p.joint;

  const int64_t size = layout.size();
  const int64_t blocks = (p.n_samples + task.block - 1) / task.block;
  const int64_t affordable = std::max<int64_t>(8, piece_memory / (size * 8));
  const int64_t per_piece =
      std::max<int64_t>(1, (blocks + std::min(most_pieces, affordable) - 1) /
                               std::min(most_pieces, affordable));
  const int64_t pieces = (blocks + per_piece - 1) / per_piece;
  const int64_t threads = std::max<int64_t>(1, std::min(p.n_threads, pieces));
  std::vector<double> records(pieces * size);
  std::vector<Aligned<T>> memory;
  memory.reserve(threads);
  for (int64_t k = 0; k < threads; ++k) memory.emplace_back(workspace_rows(layout) * task.ld);

  std::atomic<int64_t> next{0};
  auto work = [&](int64_t thread) {
    for (int64_t piece; (piece = next.fetch_add(1)) < pieces;) {
      const int64_t first = piece * per_piece * task.block;
      const int64_t last = std::min(p.n_samples, first + per_piece * task.block);
      run_kernel(task, memory[thread].get(), first, last, records.data() + piece * size);
    }
  };
  std::vector<std::thread> others;
  try {
    for (int64_t k = 1; k < threads; ++k) others.emplace_back(work, k);
  } catch (const std::system_error&) {
    // The system gives no more threads: those that there are do the work.
  }
  work(0);
  for (std::thread& other : others) other.join();

  std::memset(p.record, 0, size * sizeof(double));
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (int64_t k = 0; k < size; ++k) p.record[k] += records[piece * size + k];
  finish(p, layout, terms, p.record);
  p.record[layout.log_likelihood()] += not_finite(p, layout);
}

}  // namespace

AMICA_API int64_t amica_problem_size() { return sizeof(AmicaProblem); }

AMICA_API int64_t amica_record_size(int64_t n, int64_t models, int64_t terms) {
  return Layout{n, models, terms}.size();
}

AMICA_API int amica_statistics(const AmicaProblem* problem) {
  try {
    if (problem->single)
      compute<float>(*problem);
    else
      compute<double>(*problem);
    return ok;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  }
}

// Name of the k-th instruction set that is compiled in and runs here, or null.
AMICA_API const char* amica_instruction_set(int64_t k) {
  for (const InstructionSet& set : instruction_sets)
    if (set.runs_here() && k-- == 0) return set.name;
  return nullptr;
}

AMICA_API const char* amica_chosen_instruction_set() { return chosen().load()->name; }

AMICA_API int amica_choose_instruction_set(const char* name) {
  for (const InstructionSet& set : instruction_sets)
    if (set.runs_here() && std::strcmp(set.name, name) == 0) {
      chosen().store(&set);
      return ok;
    }
  return unknown_instruction_set;
}

AMICA_API void amica_exp2_float(const float* x, float* result, int64_t count) {
  chosen().load()->kernels->exp2_float(x, result, count);
}
AMICA_API void amica_exp2_double(const double* x, double* result, int64_t count) {
  chosen().load()->kernels->exp2_double(x, result, count);
}
AMICA_API void amica_log2_float(const float* x, float* result, int64_t count) {
  chosen().load()->kernels->log2_float(x, result, count);
}
AMICA_API void amica_log2_double(const double* x, double* result, int64_t count) {
  chosen().load()->kernels->log2_double(x, result, count);
}
