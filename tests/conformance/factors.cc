#include "tests/conformance/factors.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "tests/conformance/matrix.h"
#include "tests/conformance/values.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

struct Factors {
  ReduceOp op;
  double prescale, postscale;
};

// Factors that float32 rounds; two factors whose product would be exact in every dtype (1/3 and 3);
// factors of an average and of a maximum.
constexpr Factors kFactors[] = {
    {ReduceOp::sum, 0.1, 1},           {ReduceOp::sum, 1, 2.34},   {ReduceOp::sum, 1.0 / 3, 3},
    {ReduceOp::average, 0.7, 1.0 / 3}, {ReduceOp::max, 2.34, 0.1},
};

template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
T times(T value, double factor) {
  return factor == 1 ? value : T(static_cast<Computed<T>>(value) * static_cast<Computed<T>>(factor));
}

/// A sum divided by `ranks`, computed as in kernels.h.
template <class T>
T average_of(T sum, int ranks) {
  const double share = 1.0 / ranks;
  if constexpr (std::is_same_v<T, float>) return static_cast<float>(static_cast<double>(sum) * share);
  return times(sum, share);
}

/// The number at an index belongs to all ranks or to one rank, with zeros
/// elsewhere. No sum depends on its order.
template <class T>
class Numbers {
 public:
  Numbers(int ranks, const Factors& factors)
      : ranks_(ranks),
        factors_(factors),
        // Two equal numbers add up exactly, three with one rounding.
        // Averages of halves do not round their sums.
        some_are_of_all_(ranks <= 3 && (factors.op != ReduceOp::average || sizeof(T) > 2)) {}

  T input(int rank, std::size_t index) const {
    return is_of_all(index) || owner(index) == rank ? value(index) : T(0);
  }
  T result(std::size_t index) const {
    T reduced = times(value(index), factors_.prescale);
    if (factors_.op != ReduceOp::max && is_of_all(index))
      reduced = T(static_cast<Computed<T>>(reduced) * static_cast<Computed<T>>(ranks_));
    if (factors_.op == ReduceOp::average) reduced = average_of(reduced, ranks_);
    return times(reduced, factors_.postscale);
  }

 private:
  static T value(std::size_t index) { return T(static_cast<Computed<T>>((index % 97 + 1) * 1.37)); }
  int owner(std::size_t index) const {
    return static_cast<int>(index % static_cast<std::size_t>(ranks_ + (some_are_of_all_ ? 1 : 0)));
  }
  bool is_of_all(std::size_t index) const { return owner(index) == ranks_; }

  const int ranks_;
  const Factors factors_;
  const bool some_are_of_all_;
};

template <class T>
std::string wrong_of(Rank& self, std::size_t elements, const Factors& factors) {
  const Numbers<T> numbers(self.size(), factors);
  const std::string what = fmt::format("{} {}, {}, prescale {}, postscale {}", elements, name_of(dtype_of<T>),
                                       name_of(factors.op), factors.prescale, factors.postscale);
  std::vector<T> input(elements);
  for (std::size_t i = 0; i < elements; ++i) input[i] = numbers.input(self.rank(), i);
  const auto call = [&](const char* kind) {
    return Call{.name = fmt::format("{} of {}", kind, what),
                .op = factors.op,
                .prescale = factors.prescale,
                .postscale = factors.postscale};
  };
  std::vector<T> alone = input, first = input, second = input;
  const Pending one = self.allreduce_async(alone, call("allreduce"));
  const Pending group =
      self.start(CollectiveKind::allreduce, {{view_of(first)}, {view_of(second)}}, call("group"));
  const Pending part = self.start(CollectiveKind::reducescatter, {{view_of(input)}}, call("reducescatter"));
  for (const Pending* each : {&one, &group, &part}) must(each->wait());
  const auto difference = [&](const char* kind, const std::vector<T>& got, std::size_t begin) -> std::string {
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (const T want = numbers.result(begin + i); number(got[i]) != number(want))
        return fmt::format("{} of {}, element {}: {} instead of {}", kind, what, i, number(got[i]),
                           number(want));
    }
    return {};
  };
  const auto size = static_cast<std::size_t>(self.size()), rank = static_cast<std::size_t>(self.rank());
  for (const std::string& wrong :
       {difference("allreduce", alone, 0), difference("group", first, 0), difference("group", second, 0),
        difference("reducescatter", part.output<T>(),
                   elements / size * rank + std::min(rank, elements % size))}) {
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

std::vector<std::string> wrong_factors(Rank& self) {
  std::vector<std::string> wrong;
  // Sizes for the algorithm in which every rank sends to all others, and for the one in slices or in a ring.
  constexpr std::size_t kLarge = std::size_t{300} << 10;
  for (const std::size_t bytes : {std::size_t{40}, std::size_t{4} << 10, kLarge}) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      if (bytes == kLarge && (cases_are_pairwise() || test::kSanitized) && dtype != DType::f16 &&
          dtype != DType::f32)
        continue;
      visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_float<T>) {
          for (const Factors& factors : kFactors) {
            if (std::string text = wrong_of<T>(self, bytes / sizeof(T) + 1, factors); !text.empty())
              wrong.push_back(std::move(text));
          }
        }
      });
    }
  }
  return wrong;
}

}  // namespace dabke::test
