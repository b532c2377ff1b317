// What the library hands to the kernels: parameters in the precision of the arithmetic,
// working memory, and where each sum of the record lies.
#pragma once

#include <stdint.h>

#include "inline.h"

// Rows of W in one panel of the packed matrix.
constexpr int unmix_rows = 6;

// A block's rows are padded to a multiple of the widest pair of vectors (64 bytes each).
constexpr int64_t row_multiple = 32;

enum class Shape : int32_t {
  laplace,   // type 0, rho = 1 exactly
  normal,    // type 0, rho = 2 exactly
  power,     // type 0, any other rho
  literal_power,  // the same, with NaN where y = 0
  super_gaussian,
  gaussian,
  logistic,
  sub_gaussian,
};

// One mixture term; logarithms are to base 2.
template <class T>
struct Term {
  T log_scale, mu, beta, rho;
  T score_scale;     // the score is this times what the kernel sums: rho, or 1
  T score_at_zero;   // what the kernel takes for f and f / y where y = 0,
  T slope_at_zero;   // in units of score_scale
  Shape shape;
  bool squares;      // sum f^2: for the Newton step, or because rho > 2
};

// Sums of one mixture term, in the order of the record.
enum TermSum {
  mass,
  score,
  score_over_y,
  score_times_y,
  power_log_power,
  score_square,
  score_deviation,
  n_term_sums,
};

// Where the sums lie in a record, an array of doubles. `_statistics.py` knows this order.
struct Layout {
  int64_t n, models, terms;
  AMICA_INLINE int64_t count() const { return 0; }
  AMICA_INLINE int64_t log_likelihood() const { return 1; }
  AMICA_INLINE int64_t log_likelihood_square() const { return 2; }
  AMICA_INLINE int64_t posterior() const { return 3; }
  AMICA_INLINE int64_t weighted_x() const { return posterior() + models; }
  AMICA_INLINE int64_t square() const { return weighted_x() + models * n; }
  AMICA_INLINE int64_t fourth() const { return square() + models * n; }
  AMICA_INLINE int64_t phi() const { return fourth() + models * n; }
  AMICA_INLINE int64_t term_sum(int sum) const {
    return phi() + models * n * n + sum * models * n * terms;
  }
  AMICA_INLINE int64_t size() const { return term_sum(n_term_sums); }
};

template <class T>
struct Task {
  Layout layout;
  int64_t block;      // samples of a block, a multiple of row_multiple
  int64_t ld;         // elements from one row of a block to the next
  const T* x;         // (n, samples), a row every x_stride elements
  int64_t x_stride;
  const uint8_t* kept;   // one byte a sample, or null
  const T* unmixing;     // packed panels of each model
  const T* offset;       // (models, n)
  const T* log2_weight;  // (models)
  const Term<T>* terms;  // (models, n, terms)
  bool moments, kurtosis;
  double* joint;  // (samples, models), or null
};

// Working memory of one thread, rows of `ld` elements.
template <class T>
struct Workspace {
  T* x;           // n
  T* b;           // models * n
  T* g;           // n
  T* log_joint;   // models: log2 of P_h
  T* posterior;   // models
  T* product;     // 1
  T* weight;      // sources: posterior / sum of the exponentials
  T* exponential; // sources * terms
  T* first;       // sources * terms: what the densities remember
  T* second;      // sources * terms
};

// With several models the sources of a block wait for the posteriors; with one model
// each source is finished at once and its rows are used again.
AMICA_INLINE int64_t sources_in_memory(const Layout& layout) {
  return layout.models == 1 ? 1 : layout.models * layout.n;
}

AMICA_INLINE int64_t workspace_rows(const Layout& layout) {
  const int64_t sources = sources_in_memory(layout);
  return layout.n * (2 + layout.models) + 2 * layout.models + 1 + sources +
         3 * sources * layout.terms;
}

// One instruction set's kernels.
struct Kernels {
  void (*exp2_float)(const float*, float*, int64_t);
  void (*exp2_double)(const double*, double*, int64_t);
  void (*log2_float)(const float*, float*, int64_t);
  void (*log2_double)(const double*, double*, int64_t);
  // Add the sums over samples first..last to a record.
  void (*run_float)(const Task<float>&, float* workspace, int64_t first, int64_t last,
                    double* record);
  void (*run_double)(const Task<double>&, double* workspace, int64_t first,
                     int64_t last, double* record);
};
