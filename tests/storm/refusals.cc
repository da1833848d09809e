#include "refusals.h"

#include <array>
#include <string>

namespace storm {
namespace {

/// A correct call. Each refusal makes one part of it wrong.
struct Attempt {
  std::array<float, 16> memory{};
  std::array<std::int64_t, 2> shape{4, 2};
  std::array<std::int64_t, 2> strides{2, 1};
  std::array<std::int64_t, 2> output_shape{4, 2};
  std::array<std::int64_t, kMostRanks + 1> splits{};
  DLTensor input{};
  DLTensor output{};
  dabke_options options = DABKE_OPTIONS_INIT;
  const char* name = "refused";  // unique in the program
  int ranks = 1;

  explicit Attempt(int size) : ranks(size) {
    input.data = memory.data();
    input.device = {kDLCPU, 0};
    input.ndim = 2;
    input.dtype = {kDLFloat, 32, 1};
    input.shape = shape.data();
    output = input;
    output.shape = output_shape.data();
    output.data = memory.data() + 8;
  }
};

void must_be(const char* what, dabke_status got, dabke_status want, const dabke_handle* handle = nullptr) {
  if (got != want) {
    wrong(std::string("bad call (") + what + ") ended with " + dabke_status_name(got) + ", not " +
          dabke_status_name(want) + "; the last error is: " + dabke_last_error());
  }
  if (*dabke_last_error() == '\0') wrong(std::string("bad call (") + what + ") was refused without a word");
  if (handle != nullptr) wrong(std::string("bad call (") + what + ") was refused, but has a handle");
}

using Submit = dabke_status (*)(Attempt&, dabke_handle**);
dabke_status reduce(Attempt& a, dabke_handle** handle) {
  return dabke_allreduce_async(a.name, &a.input, nullptr, &a.options, handle);
}
dabke_status reduce_to(Attempt& a, dabke_handle** handle) {
  return dabke_allreduce_async(a.name, &a.input, &a.output, &a.options, handle);
}
dabke_status gather(Attempt& a, dabke_handle** handle) {
  return dabke_allgather_async(a.name, &a.input, &a.options, handle);
}
dabke_status gather_to(Attempt& a, dabke_handle** handle) {
  return dabke_allgather_into_async(a.name, &a.input, &a.output, &a.options, handle);
}
dabke_status exchange_to(Attempt& a, dabke_handle** handle) {
  return dabke_alltoall_into_async(a.name, &a.input, &a.output, &a.options, handle);
}
dabke_status gather_to_nothing(Attempt& a, dabke_handle** handle) {
  return dabke_allgather_into_async(a.name, &a.input, nullptr, &a.options, handle);
}
dabke_status exchange(Attempt& a, dabke_handle** handle) {
  return dabke_alltoall_async(a.name, &a.input, &a.options, handle);
}
dabke_status cast(Attempt& a, dabke_handle** handle) {
  return dabke_broadcast_async(a.name, &a.input, nullptr, &a.options, handle);
}
dabke_status scatter(Attempt& a, dabke_handle** handle) {
  return dabke_reducescatter_async(a.name, &a.input, nullptr, &a.options, handle);
}
dabke_status no_input(Attempt& a, dabke_handle** handle) {
  return dabke_allreduce_async(a.name, nullptr, nullptr, &a.options, handle);
}
dabke_status empty_group(Attempt& a, dabke_handle** handle) {
  const DLTensor* inputs[] = {&a.input};
  return dabke_grouped_allreduce_async(&a.name, inputs, nullptr, 0, &a.options, handle);
}
dabke_status bad_group(Attempt& a, dabke_handle** handle) {  // its second member is bad
  const char* names[] = {a.name, "refused as well"};
  const DLTensor* inputs[] = {&a.input, nullptr};
  return dabke_grouped_allreduce_async(names, inputs, nullptr, 2, &a.options, handle);
}
dabke_status blocked(Attempt& a, dabke_handle**) {
  return dabke_allreduce(a.name, &a.input, nullptr, &a.options);
}
dabke_status meet(Attempt& a, dabke_handle** handle) { return dabke_barrier_async(&a.options, handle); }
dabke_status join(Attempt& a, dabke_handle** handle) { return dabke_join_async(&a.options, handle); }

struct Refusal {
  const char* what;
  void (*spoil)(Attempt&);
  Submit submit;
  dabke_status status = DABKE_ERROR_INVALID_ARGUMENT;
};

constexpr auto kRefusals = std::to_array<Refusal>({
    {"no name", [](Attempt& a) { a.name = nullptr; }, reduce},
    {"empty name", [](Attempt& a) { a.name = ""; }, gather},
    {"a name of other bytes", [](Attempt& a) { a.name = "w\xff\xfe"; }, reduce},
    {"a name that is too long",
     [](Attempt& a) {
       static const std::string too_long(4097, 'n');
       a.name = too_long.c_str();
     },
     gather},
    {"no tensor", [](Attempt&) {}, no_input},
    {"no data", [](Attempt& a) { a.input.data = nullptr; }, reduce},
    {"no shape", [](Attempt& a) { a.input.shape = nullptr; }, cast},
    {"negative rows", [](Attempt& a) { a.shape[0] = -4; }, reduce},
    {"impossible rows",
     [](Attempt& a) {
       a.shape = {INT64_MAX, INT64_MAX};
     },
     gather},
    {"negative ndim", [](Attempt& a) { a.input.ndim = -1; }, reduce},
    {"strides",
     [](Attempt& a) {
       a.strides = {1, 4};
       a.input.strides = a.strides.data();
     },
     reduce},
    {"complex",
     [](Attempt& a) {
       a.input.dtype = {kDLComplex, 64, 1};
     },
     reduce, DABKE_ERROR_UNSUPPORTED},
    {"lanes", [](Attempt& a) { a.input.dtype.lanes = 2; }, reduce, DABKE_ERROR_UNSUPPORTED},
    {"float8", [](Attempt& a) { a.input.dtype.bits = 8; }, scatter, DABKE_ERROR_UNSUPPORTED},
    {"device 99", [](Attempt& a) { a.input.device.device_type = static_cast<DLDeviceType>(99); }, reduce,
     DABKE_ERROR_UNSUPPORTED},
    {"byte offset", [](Attempt& a) { a.input.byte_offset = 1; }, reduce},
    {"unknown set", [](Attempt& a) { a.options.process_set = 9999; }, reduce,
     DABKE_ERROR_UNKNOWN_PROCESS_SET},
    {"unknown set, waiting", [](Attempt& a) { a.options.process_set = -1; }, blocked,
     DABKE_ERROR_UNKNOWN_PROCESS_SET},
    {"barrier of an unknown set", [](Attempt& a) { a.options.process_set = 9999; }, meet,
     DABKE_ERROR_UNKNOWN_PROCESS_SET},
    {"join of an unknown set", [](Attempt& a) { a.options.process_set = 9999; }, join,
     DABKE_ERROR_UNKNOWN_PROCESS_SET},
    {"average of bool",
     [](Attempt& a) {
       a.input.dtype = {kDLBool, 8, 1};
     },
     reduce},
    {"operation 77", [](Attempt& a) { a.options.op = static_cast<dabke_reduce_op>(77); }, reduce},
    {"operation 9", [](Attempt& a) { a.options.op = static_cast<dabke_reduce_op>(9); }, scatter},
    {"bits of floats", [](Attempt& a) { a.options.op = DABKE_BITWISE_XOR; }, scatter},
    {"allgather of a scalar", [](Attempt& a) { a.input.ndim = 0; }, gather},
    {"reducescatter of a scalar", [](Attempt& a) { a.input.ndim = 0; }, scatter},
    {"a split too many",
     [](Attempt& a) {
       a.splits[0] = 4, a.options.splits = a.splits.data(),
       a.options.splits_count = static_cast<std::size_t>(a.ranks) + 1;
     },
     exchange},
    {"splits that add up to more",
     [](Attempt& a) {
       a.splits[0] = 5, a.options.splits = a.splits.data(),
       a.options.splits_count = static_cast<std::size_t>(a.ranks);
     },
     exchange},
    {"a negative split",
     [](Attempt& a) {
       a.splits[0] = -4, a.options.splits = a.splits.data(),
       a.options.splits_count = static_cast<std::size_t>(a.ranks);
     },
     exchange},
    {"splits without numbers", [](Attempt& a) { a.options.splits_count = 2; }, exchange},
    {"root -1", [](Attempt& a) { a.options.root_rank = -1; }, cast},
    {"root past the last rank", [](Attempt& a) { a.options.root_rank = a.ranks; }, cast},
    {"an output of another shape",
     [](Attempt& a) {
       a.output_shape = {2, 4};
     },
     reduce_to},
    {"an output of another dtype",
     [](Attempt& a) {
       a.output.dtype = {kDLInt, 32, 1};
     },
     reduce_to},
    {"an output that overlaps", [](Attempt& a) { a.output.data = a.memory.data() + 4; }, reduce_to},
    {"an output of other columns", [](Attempt& a) { a.output_shape[1] = 3; }, gather_to},
    {"an output with strides",
     [](Attempt& a) {
       a.strides = {1, 4};
       a.output.strides = a.strides.data();
     },
     gather_to},
    {"no output", [](Attempt&) {}, gather_to_nothing},
    {"an output without data", [](Attempt& a) { a.output.data = nullptr; }, gather_to},
    {"an output behind its input's beginning",
     [](Attempt& a) {
       a.output.data = a.memory.data() + 4;
       a.splits[0] = 4, a.options.splits = a.splits.data(),
       a.options.splits_count = static_cast<std::size_t>(a.ranks);
     },
     exchange_to},
    {"compression 9", [](Attempt& a) { a.options.compression = static_cast<dabke_compression>(9); }, reduce},
    {"an empty group", [](Attempt&) {}, empty_group},
    {"a group with a bad member", [](Attempt&) {}, bad_group},
    {"options of another size", [](Attempt& a) { a.options.struct_size = 1; }, reduce},
});

void spoil_sets(const Here& here, Random& random) {
  const std::int32_t size = here.program.ranks;
  const std::array<std::int32_t, 2> twice{0, 0}, beyond{0, size}, below{-1, 0};
  dabke_process_set id = -9;
  std::int32_t number = 0;
  switch (random.below(8)) {
    case 0:
      return must_be("a set without ranks", dabke_add_process_set(nullptr, 0, &id),
                     DABKE_ERROR_INVALID_ARGUMENT);
    case 1:
      return must_be("a rank twice", dabke_add_process_set(twice.data(), 2, &id),
                     DABKE_ERROR_INVALID_ARGUMENT);
    case 2:
      return must_be("a rank too high", dabke_add_process_set(beyond.data(), 2, &id),
                     DABKE_ERROR_INVALID_ARGUMENT);
    case 3:
      return must_be("rank -1", dabke_add_process_set(below.data(), 2, &id), DABKE_ERROR_INVALID_ARGUMENT);
    case 4:
      return must_be("removing the world", dabke_remove_process_set(DABKE_WORLD),
                     DABKE_ERROR_INVALID_ARGUMENT);
    case 5:
      return must_be("removing nothing", dabke_remove_process_set(9999), DABKE_ERROR_UNKNOWN_PROCESS_SET);
    case 6: return must_be("init again", dabke_init(nullptr), DABKE_ERROR_ALREADY_INITIALIZED);
    default:
      return must_be("the size of nothing", dabke_process_set_size(9999, &number),
                     DABKE_ERROR_UNKNOWN_PROCESS_SET);
  }
}

}  // namespace

void be_refused(const Here& here, Random& random) {
  if (random.chance(15)) return spoil_sets(here, random);
  Attempt attempt(here.program.ranks);
  const Refusal& refusal = random.pick(kRefusals);
  refusal.spoil(attempt);
  dabke_handle* handle = reinterpret_cast<dabke_handle*>(&attempt);  // the library must reset it
  const dabke_status status = refusal.submit(attempt, &handle);
  must_be(refusal.what, status, refusal.status, refusal.submit == blocked ? nullptr : handle);
}

void be_refused_outside() {
  Attempt attempt(1);
  dabke_handle* handle = nullptr;
  must_be("outside of a job", reduce(attempt, &handle), DABKE_ERROR_NOT_INITIALIZED, handle);
  must_be("barrier outside of a job", meet(attempt, &handle), DABKE_ERROR_NOT_INITIALIZED, handle);
  must_be("add outside of a job", dabke_add_process_set(nullptr, 0, nullptr), DABKE_ERROR_NOT_INITIALIZED);
  if (dabke_rank() != -1 || dabke_size() != -1) wrong("has a rank outside of a job");
}

}  // namespace storm
