// Shared code of the scenarios over the C API. They use only dabke.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dabke/dabke.h"
#include "worker.h"

namespace worker::c {

// The scenarios, by file.
void process_sets();  // c_sets.cc
void static_sets();
void sets_among_members();
void ring_of_sets();
void join();  // c_collectives.cc
void groups();
void barrier();
void learned();  // c_learned.cc
void dies_in_init();
void exits_in_init();  // c_deaths.cc

constexpr double kPatience = 150;  // seconds; a longer wait is a hang

inline void must(dabke_status status, const std::string& what) {
  if (status != DABKE_OK) wrong(what + ": " + dabke_status_name(status) + ": " + dabke_last_error());
}

inline void must_fail(dabke_status got, dabke_status want, const std::string& what, const std::string& text) {
  must_equal(what, std::string(dabke_status_name(got)), std::string(dabke_status_name(want)));
  must_contain(what, dabke_last_error(), text);
}

/// Calls init, and shutdown at the end of the scope.
struct Job {
  explicit Job(const dabke_init_options* options = nullptr) { must(dabke_init(options), "init"); }
  ~Job() { (void)dabke_shutdown(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
};

inline int me() { return dabke_rank(); }
inline int all() { return dabke_size(); }

/// A list of numbers and its tensor.
struct Array {
  explicit Array(std::vector<std::int64_t> numbers) : values(std::move(numbers)) {
    count = static_cast<std::int64_t>(values.size());
    tensor.data = values.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 64, 1};
    tensor.shape = &count;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::vector<std::int64_t> values;
  std::int64_t count = 0;
  DLTensor tensor{};
};

class Handle {
 public:
  Handle() = default;
  ~Handle() { dabke_handle_free(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  dabke_handle** out() { return &handle_; }
  dabke_handle* get() const { return handle_; }
  bool is_done() const { return dabke_poll(handle_) != 0; }
  dabke_status wait() const { return dabke_wait(handle_, kPatience); }
  void must_be_well(const std::string& what) const {
    const dabke_status status = wait();
    if (status != DABKE_OK) wrong(what + ": " + dabke_status_name(status) + ": " + message());
  }
  void must_have_failed(dabke_status want, const std::string& what, const std::string& text) const {
    must_equal(what, std::string(dabke_status_name(wait())), std::string(dabke_status_name(want)));
    must_contain(what, message(), text);
  }
  std::string message() const { return dabke_handle_message(handle_); }
  std::vector<std::int64_t> numbers(std::size_t index = 0) const {
    const DLTensor* output = nullptr;
    must(dabke_handle_output(handle_, index, &output), "output");
    const auto* data = static_cast<const std::int64_t*>(output->data);
    return {data, data + output->shape[0]};
  }
  std::vector<std::int64_t> received() const {
    const std::int64_t* splits = nullptr;
    std::size_t count = 0;
    must(dabke_handle_received_splits(handle_, &splits, &count), "received splits");
    return {splits, splits + count};
  }

 private:
  dabke_handle* handle_ = nullptr;
};

inline dabke_options options_for(dabke_process_set set, dabke_reduce_op op = DABKE_SUM) {
  dabke_options options = DABKE_OPTIONS_INIT;
  options.process_set = set;
  options.op = op;
  return options;
}

inline std::int64_t sum_on(dabke_process_set set, const char* name, std::int64_t value) {
  Array x({value});
  const dabke_options options = options_for(set);
  must(dabke_allreduce(name, &x.tensor, nullptr, &options), name);
  return x.values[0];
}

/// Checks that all ranks hold the same text as this rank.
inline void must_be_everywhere(const std::string& text) {
  Array bytes(std::vector<std::int64_t>(text.begin(), text.end()));
  Handle gathered;
  must(dabke_allgather("a text", &bytes.tensor, nullptr, gathered.out()), "allgather of a text");
  std::string texts, want;
  for (const std::int64_t byte : gathered.numbers()) texts += static_cast<char>(byte);
  for (int rank = 0; rank < all(); ++rank) want += text;
  must_equal("the texts of all ranks", texts, want);
}

inline std::vector<std::int32_t> ranks_in(unsigned mask) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < 31; ++rank) {
    if ((mask >> rank & 1U) != 0) ranks.push_back(rank);
  }
  return ranks;
}

inline bool is_in(const std::vector<std::int32_t>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace worker::c
