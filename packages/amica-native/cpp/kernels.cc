// The E-step over blocks of samples. Compiled once for each instruction set, with
// AMICA_KERNELS set to the name of the table that this copy defines.

#include "densities.h"
#include "products.h"
#include "task.h"

namespace {

template <class T>
static Workspace<T> divide(const Task<T>& task, T* memory) {
  const Layout& layout = task.layout;
  const int64_t sources = sources_in_memory(layout);
  Workspace<T> work;
  auto take = [&](int64_t rows) {
    T* start = memory;
    memory += rows * task.ld;
    return start;
  };
  work.x = take(layout.n);
  work.b = take(layout.models * layout.n);
  work.g = take(layout.n);
  work.log_joint = take(layout.models);
  work.posterior = take(layout.models);
  work.product = take(1);
  work.weight = take(sources);
  work.exponential = take(sources * layout.terms);
  work.first = take(sources * layout.terms);
  work.second = take(sources * layout.terms);
  return work;
}

// Copy the kept samples of a block and return their number. The first of them fills up
// the row: it has no weight there, and unlike 0 it is no new point to divide by.
template <class T>
static int64_t gather(const Task<T>& task, int64_t first, int64_t length, T* to) {
  const int64_t n = task.layout.n;
  int64_t kept = length;
  for (int64_t k = 0; k < n; ++k) {
    const T* from = task.x + k * task.x_stride + first;
    T* row = to + k * task.ld;
    if (task.kept == nullptr) {
      memcpy(row, from, length * sizeof(T));
    } else {
      kept = 0;
      for (int64_t s = 0; s < length; ++s) {
        row[kept] = from[s];
        kept += task.kept[first + s] != 0;
      }
    }
    for (int64_t s = kept; s < task.block; ++s) row[s] = row[0];
  }
  return kept;
}

template <class T, class Density>
static void forward_as(const Term<T>& term, const T* b, int64_t length, T* z, T* first,
                    T* second) {
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    Vec<T> remember_first, remember_second;
    const Vec<T> y = (load(b + s) - term.mu) * term.beta;
    const Vec<T> log_kernel =
        Density::forward(y, term.rho, remember_first, remember_second);
    store<T>(z + s, log_kernel + term.log_scale);
    store<T>(first + s, remember_first);
    store<T>(second + s, remember_second);
  }
}

// Power's logarithm and exponential in loops of their own: a shorter chain of dependent
// operations leaves more of them in flight.
template <class T>
static void forward_power(const Term<T>& term, const T* b, int64_t length, T* z, T* first,
                          T* second) {
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    const Vec<T> y = (load(b + s) - term.mu) * term.beta;
    store<T>(second + s, log2_finite<T>(magnitude<T>(y)));
  }
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    const Vec<T> q = exp2<T>(load(second + s) * term.rho);
    store<T>(first + s, q);
    store<T>(z + s, q * T(-log2_e) + term.log_scale);
  }
}

template <class T>
static void forward(const Term<T>& term, const T* b, int64_t length, T* z, T* first,
                    T* second) {
  switch (term.shape) {
    case Shape::laplace:
      return forward_as<T, Laplace<T>>(term, b, length, z, first, second);
    case Shape::normal:
      return forward_as<T, Normal<T>>(term, b, length, z, first, second);
    case Shape::power:
    case Shape::literal_power:
      return forward_power<T>(term, b, length, z, first, second);
    case Shape::super_gaussian:
      return forward_as<T, Curved<T, -1>>(term, b, length, z, first, second);
    case Shape::gaussian:
      return forward_as<T, Gaussian<T>>(term, b, length, z, first, second);
    case Shape::logistic:
      return forward_as<T, Logistic<T>>(term, b, length, z, first, second);
    case Shape::sub_gaussian:
      return forward_as<T, Curved<T, 1>>(term, b, length, z, first, second);
  }
}

// Turn the rows z of one source into exponentials less their largest, multiply their
// sum into `product` and add the largest to `log_joint`; `weight` becomes posterior
// over sum. The logarithm of the product is taken once for many sources.
template <class T>
static void responsibilities(int64_t terms, int64_t ld, int64_t length, T* z,
                             const T* posterior, T* weight, T* product, T* log_joint) {
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    Vec<T> largest = load(z + s);
    for (int64_t j = 1; j < terms; ++j) largest = at_least(largest, load(z + j * ld + s));
    Vec<T> sum = {};
    for (int64_t j = 0; j < terms; ++j) {
      const Vec<T> e = exp2_bounded<T>(load(z + j * ld + s) - largest);
      store<T>(z + j * ld + s, e);
      sum += e;
    }
    store<T>(weight + s, load(posterior + s) / sum);
    store<T>(product + s, load(product + s) * sum);
    store<T>(log_joint + s, load(log_joint + s) + largest);
  }
}

template <class T>
static void flush_product(int64_t length, T* product, T* log_joint) {
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    store<T>(log_joint + s, load(log_joint + s) + log2_finite<T>(load(product + s)));
    store<T>(product + s, splat(T(1)));
  }
}

// The sums of one mixture term, and its share of the row g.
template <class T, class Density, bool squares>
static void sum_term(const Term<T>& term, const T* b, int64_t length, const T* weight,
                     const T* exponential, const T* first, const T* second, T* g,
                     double* record, int64_t stride) {
  Vec<T> sums[n_term_sums] = {};
  const T scale = term.beta * term.score_scale;
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    const Vec<T> y = (load(b + s) - term.mu) * term.beta;
    const Vec<T> log_y = load(second + s);
    const Scores<T> f = Density::backward(term, y, load(first + s), log_y);
    const Vec<T> u = load(exponential + s) * load(weight + s);
    const Vec<T> uf = u * f.score, ufy = u * f.times_y;
    sums[mass] += u;
    sums[score] += uf;
    sums[score_over_y] += u * f.over_y;
    sums[score_times_y] += ufy;
    sums[power_log_power] += ufy * log_y;
    if (squares) {
      sums[score_square] += uf * f.score;
      sums[score_deviation] += ufy * f.times_y;
    }
    store<T>(g + s, load(g + s) + scale * uf);
  }
  T totals[8];
  sum_lanes_of_four(sums[0], sums[1], sums[2], sums[3], totals);
  sum_lanes_of_four(sums[4], sums[5], sums[6], Vec<T>{}, totals + 4);
  for (int k = 0; k < n_term_sums; ++k) record[k * stride] += totals[k];
}

template <class T, class Density>
static void backward_as(const Term<T>& term, const T* b, int64_t length, const T* weight,
                     const T* exponential, const T* first, const T* second, T* g,
                     double* record, int64_t stride) {
  (term.squares ? sum_term<T, Density, true> : sum_term<T, Density, false>)(
      term, b, length, weight, exponential, first, second, g, record, stride);
}

template <class T>
static void backward(const Term<T>& term, const T* b, int64_t length, const T* weight,
                     const T* exponential, const T* first, const T* second, T* g,
                     double* record, int64_t stride) {
  auto run = backward_as<T, Power<T>>;
  switch (term.shape) {
    case Shape::power: break;
    case Shape::literal_power: run = backward_as<T, LiteralPower<T>>; break;
    case Shape::laplace: run = backward_as<T, Laplace<T>>; break;
    case Shape::normal: run = backward_as<T, Normal<T>>; break;
    case Shape::super_gaussian: run = backward_as<T, Curved<T, -1>>; break;
    case Shape::gaussian: run = backward_as<T, Gaussian<T>>; break;
    case Shape::logistic: run = backward_as<T, Logistic<T>>; break;
    case Shape::sub_gaussian: run = backward_as<T, Curved<T, 1>>; break;
  }
  run(term, b, length, weight, exponential, first, second, g, record, stride);
}

// Sums of v b^2 and v b^4.
template <class T>
static void moments(const T* b, const T* v, int64_t length, double* square,
                    double* fourth) {
  Vec<T> sum_square = {}, sum_fourth = {};
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    const Vec<T> row = load(b + s);
    const Vec<T> b2 = row * row, vb2 = load(v + s) * b2;
    sum_square += vb2;
    sum_fourth += vb2 * b2;
  }
  *square += sum_lanes<T>(sum_square);
  *fourth += sum_lanes<T>(sum_fourth);
}

template <class T>
static double weighted_sum(const T* row, const T* v, int64_t length) {
  Vec<T> sum = {};
  for (int64_t s = 0; s < length; s += Simd<T>::width)
    sum += load(row + s) * load(v + s);
  return sum_lanes<T>(sum);
}

// From log2 P_h: the posteriors of the models, and the log-likelihoods of the samples.
template <class T>
static void compare_models(const Task<T>& task, const Workspace<T>& work, int64_t kept,
                           int64_t length, double* record) {
  const Layout& layout = task.layout;
  for (int64_t s = 0; s < length; s += Simd<T>::width) {
    Vec<T> largest = load(work.log_joint + s);
    for (int64_t h = 1; h < layout.models; ++h)
      largest = at_least(largest, load(work.log_joint + h * task.ld + s));
    Vec<T> sum = {};
    for (int64_t h = 0; h < layout.models; ++h) {
      const Vec<T> e = exp2_bounded<T>(load(work.log_joint + h * task.ld + s) - largest);
      store<T>(work.posterior + h * task.ld + s, e);
      sum += e;
    }
    for (int64_t h = 0; h < layout.models; ++h) {
      T* row = work.posterior + h * task.ld + s;
      store<T>(row, load(row) / sum);
    }
    store<T>(work.product + s, largest + log2_finite<T>(sum));
  }
  for (int64_t h = 0; h < layout.models; ++h)
    for (int64_t s = kept; s < length; ++s) work.posterior[h * task.ld + s] = 0;
  double total = 0, square = 0;
  for (int64_t s = 0; s < kept; ++s) {
    const double p = ln_2 * work.product[s];
    total += p;
    square += p * p;
  }
  record[layout.count()] += double(kept);
  record[layout.log_likelihood()] += total;
  record[layout.log_likelihood_square()] += square;
}

template <class T>
static void store_joint(const Task<T>& task, const Workspace<T>& work, int64_t first,
                        int64_t length) {
  const int64_t models = task.layout.models;
  int64_t from = 0;
  for (int64_t s = 0; s < length; ++s) {
    const bool kept = task.kept == nullptr || task.kept[first + s] != 0;
    for (int64_t h = 0; h < models; ++h)
      task.joint[(first + s) * models + h] =
          kept ? ln_2 * work.log_joint[h * task.ld + from] : 0.0;
    from += kept;
  }
}

template <class T>
static void run_block(const Task<T>& task, const Workspace<T>& work, int64_t first,
                      int64_t samples, double* record) {
  const Layout& layout = task.layout;
  const int64_t n = layout.n, models = layout.models, terms = layout.terms, ld = task.ld;
  const int64_t kept = gather(task, first, samples, work.x);
  if (kept != 0) {
    const int64_t step = 2 * Simd<T>::width;
    const int64_t length = (kept + step - 1) / step * step;
    const int64_t stride = models * n * terms;
    // The product of `period` sums, each between 1 and `terms`, stays below 2^96.
    int64_t bits = 1;
    while ((int64_t(1) << bits) < terms) ++bits;
    const int64_t period = bits < 96 ? 96 / bits : 1;

    auto source_rows = [&](int64_t h, int64_t i) { return models == 1 ? 0 : h * n + i; };
    auto finish_source = [&](int64_t h, int64_t i) {
      const T* b = work.b + (h * n + i) * ld;
      const T* weight = work.weight + source_rows(h, i) * ld;
      T* g = work.g + i * ld;
      for (int64_t s = 0; s < length; ++s) g[s] = 0;
      for (int64_t j = 0; j < terms; ++j) {
        const int64_t row = (source_rows(h, i) * terms + j) * ld;
        const int64_t term = (h * n + i) * terms + j;
        backward(task.terms[term], b, length, weight, work.exponential + row,
                 work.first + row, work.second + row, g,
                 record + layout.term_sum(0) + term, stride);
      }
    };

    // A single model's posterior is 1, and 0 in the padding.
    for (int64_t h = 0; h < models; ++h)
      for (int64_t s = 0; s < length; ++s)
        work.posterior[h * ld + s] = models > 1 || s < kept ? 1 : 0;
    for (int64_t h = 0; h < models; ++h) {
      const T* packed =
          task.unmixing + h * ((n + unmix_rows - 1) / unmix_rows * unmix_rows) * n;
      T* log_joint = work.log_joint + h * ld;
      unmix(packed, task.offset + h * n, n, work.x, work.b + h * n * ld, ld, length);
      for (int64_t s = 0; s < length; ++s) {
        log_joint[s] = task.log2_weight[h];
        work.product[s] = 1;
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t rows = source_rows(h, i) * terms * ld;
        for (int64_t j = 0; j < terms; ++j)
          forward(task.terms[(h * n + i) * terms + j], work.b + (h * n + i) * ld, length,
                  work.exponential + rows + j * ld, work.first + rows + j * ld,
                  work.second + rows + j * ld);
        responsibilities(terms, ld, length, work.exponential + rows, work.posterior,
                         work.weight + source_rows(h, i) * ld, work.product, log_joint);
        if ((i + 1) % period == 0 || i + 1 == n)
          flush_product(length, work.product, log_joint);
        if (models == 1) finish_source(h, i);
      }
    }
    compare_models(task, work, kept, length, record);
    for (int64_t h = 0; h < models; ++h) {
      const T* posterior = work.posterior + h * ld;
      T* b = work.b + h * n * ld;
      if (models > 1) {
        for (int64_t i = 0; i < n; ++i) {
          T* weight = work.weight + source_rows(h, i) * ld;
          for (int64_t s = 0; s < length; s += Simd<T>::width)
            store<T>(weight + s, load(weight + s) * load(posterior + s));
          finish_source(h, i);
        }
      }
      accumulate_outer(work.g, b, n, ld, length, record + layout.phi() + h * n * n);
      for (int64_t s = 0; s < kept; ++s)
        record[layout.posterior() + h] += posterior[s];
      for (int64_t i = 0; i < n; ++i) {
        record[layout.weighted_x() + h * n + i] +=
            weighted_sum(work.x + i * ld, posterior, length);
        if (task.moments)
          moments(b + i * ld, posterior, length, record + layout.square() + h * n + i,
                  record + layout.fourth() + h * n + i);
      }
    }
  }
  if (task.joint != nullptr) store_joint(task, work, first, samples);
}

template <class T>
static void run(const Task<T>& task, T* memory, int64_t first, int64_t last,
                double* record) {
  const Workspace<T> work = divide(task, memory);
  for (int64_t start = first; start < last; start += task.block)
    run_block(task, work, start, last - start < task.block ? last - start : task.block,
              record);
}

template <class T, Vec<T> (*function)(Vec<T>)>
static void map(const T* x, T* result, int64_t count) {
  constexpr int width = Simd<T>::width;
  int64_t s = 0;
  for (; s + width <= count; s += width) store<T>(result + s, function(load(x + s)));
  if (s < count) {
    T lanes[width] = {};
    memcpy(lanes, x + s, (count - s) * sizeof(T));
    store<T>(lanes, function(load(lanes)));
    memcpy(result + s, lanes, (count - s) * sizeof(T));
  }
}

}  // namespace

extern const Kernels AMICA_KERNELS;
const Kernels AMICA_KERNELS = {
    map<float, exp2<float>>, map<double, exp2<double>>, map<float, log2<float>>,
    map<double, log2<double>>, run<float>, run<double>,
};
