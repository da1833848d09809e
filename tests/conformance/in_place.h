// Outputs that lie where their inputs are, in the two forms that are valid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/in_process/rank.h"

namespace dabke::test {

/// The place of an output: where its input begins or, as NCCL defines it, at this rank's part of the longer
/// of the two.
enum class Form { at_the_input, at_this_ranks_part };

struct InPlace {
  CollectiveKind kind;
  Form form;
};

/// All that there are. Allreduce and broadcast are in place in most other tests.
inline constexpr InPlace kInPlace[] = {
    {CollectiveKind::reducescatter, Form::at_the_input},
    {CollectiveKind::reducescatter, Form::at_this_ranks_part},
    {CollectiveKind::allgather, Form::at_the_input},
    {CollectiveKind::allgather, Form::at_this_ranks_part},
    {CollectiveKind::alltoall, Form::at_the_input},
};

/// Some rows of `memory`, as a tensor.
TensorView rows_at(std::vector<float>& memory, std::int64_t first_row, std::int64_t rows,
                   std::int64_t columns);

/// Runs batches and groups of four tensors with 3 and with `most_columns` columns, and with rows that do not
/// divide evenly. Compares every bit. All ranks call it with the same arguments. Returns the first that was
/// wrong, or nothing.
std::string wrong_in_place(Rank& self, const InPlace& how, std::int64_t most_columns = 40'000);

}  // namespace dabke::test
