// One case of the conformance matrix, as one rank runs it.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/values.h"
#include "tests/in_process/rank.h"

namespace dabke::test {

struct Case {
  enum class Rows { alike, uneven, one_rank };  // allgather, alltoall: how rows are distributed

  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::int64_t length = 1;
  bool in_place = true;  // allgather, alltoall: the runtime allocates the output
  double prescale = 1;
  double postscale = 1;
  int root = 0;  // within the set
  Rows rows = Rows::alike;
  int tensors = 1;  // more than one: a group
  ProcessSetId set = kWorldSet;
  std::vector<int> set_ranks;  // empty: the world
  int number = 0;              // unique for each case; also changes the values

  std::string name() const;
};

class CaseRun {
 public:
  /// Makes this rank's inputs. The rank must be in the set.
  CaseRun(const Case& what, Rank& self);
  void submit();
  /// Waits. Returns "" if everything is right, otherwise what is wrong.
  std::string finish();

 private:
  static constexpr int kAllRanks = -1;

  /// Elements of an output: those of `rank` of the set from `first` on, or the reduction over all ranks.
  struct Piece {
    int rank;
    std::int64_t first;
    std::int64_t count;
  };

  int ranks() const { return static_cast<int>(set_ranks_.size()); }
  std::int64_t rows_of(int rank, int tensor) const;
  std::int64_t rows_between(int from, int to) const;
  std::int64_t first_row_to(int from, int to) const;
  DType dtype_of_tensor(int tensor) const;
  Shape input_shape(int tensor) const;
  Shape output_shape(int tensor) const;
  bool has_own_output() const;
  std::string check(int tensor) const;
  template <class T>
  Pattern<T> input_pattern(int tensor) const;
  template <class T>
  std::string check_elements(int tensor, const std::byte* data) const;
  std::vector<Piece> pieces(int tensor) const;
  template <class T>
  T expected(int rank, std::int64_t index, int salt) const;

  Case case_;
  Rank* self_;
  std::vector<int> set_ranks_;
  int me_;  // within the set
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
  Pending pending_;
};

}  // namespace dabke::test
