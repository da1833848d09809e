// Dabke for C++20: a header-only wrapper of the C API (dabke/dabke.h). Handles own their operation, and
// errors are exceptions. dabke.h documents shapes, units and errors of each function.
//
//   dabke::Session session;                                   // init; shutdown at the end of the scope
//   std::vector<float> gradient = ...;
//   auto pending = dabke::allreduce_async("layer1.grad", gradient, {.op = DABKE_AVERAGE});
//   ...
//   pending.wait();                                           // gradient now holds the average
#ifndef DABKE_DABKE_HPP
#define DABKE_DABKE_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dabke/dabke.h"

namespace dabke {

/// The exception that every failing call throws: a status of dabke.h, and its text.
class Error : public std::runtime_error {
 public:
  Error(dabke_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  dabke_status status() const { return status_; }

 private:
  dabke_status status_;
};

namespace detail {

inline void check(dabke_status status) {
  if (status != DABKE_OK) throw Error(status, dabke_last_error());
}

/// The text as a C string. Refuses a NUL character: C would read it as the end, and two names could become
/// one.
inline const char* c_text(const std::string& text) {
  const std::size_t nul = text.find('\0');
  if (nul == std::string::npos) return text.c_str();
  throw Error(DABKE_ERROR_INVALID_ARGUMENT,
              "'" + text.substr(0, nul) + "\\0...' contains a NUL character; names and paths must not");
}

template <class T>
constexpr DLDataType dtype_of() {
  using U = std::remove_cv_t<T>;
  constexpr auto bits = static_cast<std::uint8_t>(sizeof(U) * 8);
  if constexpr (std::is_same_v<U, bool>) {
    return {kDLBool, bits, 1};
  } else if constexpr (std::is_floating_point_v<U>) {
    static_assert(sizeof(U) <= 8, "long double has no dtype");
    return {kDLFloat, bits, 1};
  } else {
    static_assert(std::is_integral_v<U>, "use Tensor with a DLDataType for other element types");
    return {std::is_signed_v<U> ? kDLInt : kDLUInt, bits, 1};
  }
}

}  // namespace detail

/// An allocator for containers, with memory that ranks of one host reduce in place, without copies
/// (dabke_alloc):
///   std::vector<float, dabke::Allocator<float>> gradient(1 << 20);
/// The memory stays valid across shutdown and another init. deallocate() waits for operations that use the
/// memory.
template <class T>
struct Allocator {
  using value_type = T;

  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) {}  // NOLINT: implicit, as containers want it

  /// Throws Error (out of memory). `count` is in elements.
  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= 64);
    const std::size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    void* const memory = dabke_alloc(bytes);
    if (memory == nullptr) throw Error(DABKE_ERROR_OUT_OF_MEMORY, dabke_last_error());
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { dabke_free(memory); }

  friend bool operator==(const Allocator&, const Allocator&) { return true; }
};

/// A view of row-major memory, which the caller owns: a range of numbers (one dimension), or pointer, dtype
/// and shape. The memory is on the host, unless on() names another device:
///   dabke::Tensor(gradient, {rows, columns}).on({kDLCUDA, 0})
class Tensor {
 public:
  /// No tensor. As an output it means in place.
  Tensor() = default;
  Tensor(void* data, DLDataType dtype, std::vector<std::int64_t> shape)
      : data_(data), dtype_(dtype), shape_(std::move(shape)) {}
  template <class T>
  Tensor(T* data, std::vector<std::int64_t> shape)
      : Tensor(const_cast<std::remove_const_t<T>*>(data), detail::dtype_of<T>(), std::move(shape)) {}
  template <std::ranges::contiguous_range R>
  requires(!std::is_same_v<std::remove_cvref_t<R>, Tensor>) Tensor(R&& range)  // NOLINT: implicit on purpose
      : Tensor(std::ranges::data(range), {static_cast<std::int64_t>(std::ranges::size(range))}) {}

  /// The same memory as a tensor on `device`.
  Tensor on(DLDevice device) const {
    Tensor there = *this;
    there.device_ = device;
    return there;
  }
  bool empty() const { return shape_.empty() && data_ == nullptr; }
  /// The tensor for the C API. It is valid while this object lives.
  DLTensor dl() const {
    DLTensor out{};
    out.data = data_;
    out.device = device_;
    out.ndim = static_cast<std::int32_t>(shape_.size());
    out.dtype = dtype_;
    out.shape = const_cast<std::int64_t*>(shape_.data());
    return out;
  }

 private:
  void* data_ = nullptr;
  DLDataType dtype_{kDLFloat, 32, 1};
  std::vector<std::int64_t> shape_;
  DLDevice device_{kDLCPU, 0};
};

namespace detail {
inline std::atomic<std::uint64_t> marked_steps = 0;  // by mark_step() in this program
inline constexpr dabke_options kDefaults = DABKE_OPTIONS_INIT;
}  // namespace detail

/// The options that most calls need, as in dabke_options, with the defaults of DABKE_OPTIONS_INIT: the world,
/// an average. The other fields of dabke_options need the C API.
struct Options {
  dabke_process_set process_set = detail::kDefaults.process_set;
  dabke_reduce_op op = detail::kDefaults.op;
  int root_rank = detail::kDefaults.root_rank;
  double prescale_factor = detail::kDefaults.prescale_factor;
  double postscale_factor = detail::kDefaults.postscale_factor;
  std::vector<std::int64_t> splits = {};
  int priority = detail::kDefaults.priority;
  dabke_compression compression = detail::kDefaults.compression;
  int device = static_cast<int>(detail::kDefaults.device);  // join
  void* stream = nullptr;                                   // cudaStream_t on which the input is produced
  void* ready_event = nullptr;                              // cudaEvent_t after which the input is ready
  std::int64_t tag = detail::kDefaults.tag;                 // send, recv
  std::int64_t call_sequence = detail::kDefaults.call_sequence;

  dabke_options c() const {
    dabke_options out = DABKE_OPTIONS_INIT;
    out.process_set = process_set;
    out.op = op;
    out.root_rank = root_rank;
    out.prescale_factor = prescale_factor;
    out.postscale_factor = postscale_factor;
    out.splits = splits.empty() ? nullptr : splits.data();
    out.splits_count = splits.size();
    out.priority = priority;
    out.compression = compression;
    out.device = device;
    out.stream = stream;
    out.ready_event = ready_event;
    out.tag = tag;
    out.call_sequence = call_sequence;
    return out;
  }
};

namespace detail {

/// A function of the caller as a dabke_check. Its exception stops the wait, and rethrow() throws it again.
template <class Check>
struct Asked {
  Check& check;
  std::exception_ptr thrown = nullptr;

  static int ask(void* context) noexcept {
    auto& asked = *static_cast<Asked*>(context);
    try {
      return asked.check() ? 1 : 0;
    } catch (...) {
      asked.thrown = std::current_exception();
      return 1;
    }
  }
  void rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

struct Deleter {
  template <class Managed>
  void operator()(Managed* tensor) const {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
};

}  // namespace detail

/// Outputs that outlive their handle. release() hands the tensor to a consumer of the DLPack protocol, which
/// then calls its deleter.
using ManagedTensor = std::unique_ptr<DLManagedTensor, detail::Deleter>;
using ManagedTensorVersioned = std::unique_ptr<DLManagedTensorVersioned, detail::Deleter>;

/// A pending operation. The destructor does not cancel it. The tensors' memory must live until the operation
/// has completed.
class Handle {
 public:
  Handle() = default;
  explicit Handle(dabke_handle* handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { dabke_handle_free(handle_); }

  dabke_handle* c() const { return handle_; }
  bool poll() const { return dabke_poll(handle_) != 0; }
  /// True if the operation completed within the limit (negative: without limit). Throws Error if it failed.
  bool wait(double timeout_seconds = -1) const {
    const dabke_status status = dabke_wait(handle_, timeout_seconds);
    if (status != DABKE_OK && status != DABKE_IN_PROGRESS) throw Error(status, dabke_handle_message(handle_));
    return status == DABKE_OK;
  }
  /// Like wait(), and calls `check` about every 50 ms (dabke_wait_checking). The wait stops in two cases:
  ///   check returns true  throws Error with status DABKE_ERROR_INTERRUPTED
  ///   check throws        throws that exception
  template <class Check>
  bool wait_checking(Check&& check, double timeout_seconds = -1) const {
    detail::Asked<std::remove_reference_t<Check>> asked{check};
    const dabke_status status = dabke_wait_checking(handle_, timeout_seconds, &asked.ask, &asked);
    asked.rethrow();
    if (status == DABKE_ERROR_INTERRUPTED) throw Error(status, dabke_last_error());
    if (status != DABKE_OK && status != DABKE_IN_PROGRESS) throw Error(status, dabke_handle_message(handle_));
    return status == DABKE_OK;
  }
  /// Makes `stream`, a cudaStream_t, wait for the result. The call itself waits only until the operation has
  /// been handed to the device (dabke_wait_stream). False if that took longer than the limit. Throws Error
  /// like wait(), and if the stream cannot wait for an operation.
  bool wait_stream(void* stream, double timeout_seconds = -1) const {
    return is_held(dabke_wait_stream_checking(handle_, stream, timeout_seconds, nullptr, nullptr));
  }
  /// Like wait_stream(), with a check like that of wait_checking().
  template <class Check>
  bool wait_stream_checking(void* stream, Check&& check, double timeout_seconds = -1) const {
    detail::Asked<std::remove_reference_t<Check>> asked{check};
    const dabke_status status =
        dabke_wait_stream_checking(handle_, stream, timeout_seconds, &asked.ask, &asked);
    asked.rethrow();
    return is_held(status);
  }
  const DLTensor& output(std::size_t index = 0) const {
    const DLTensor* out = nullptr;
    detail::check(dabke_handle_output(handle_, index, &out));
    return *out;
  }
  /// Output `index` as elements of T, its own element type. The span lives as long as the handle.
  template <class T>
  std::span<T> elements(std::size_t index = 0) const {
    const DLTensor& out = output(index);
    const DLDataType want = detail::dtype_of<T>();
    if (out.dtype.code != want.code || out.dtype.bits != want.bits) {
      throw Error(DABKE_ERROR_INVALID_ARGUMENT, "the output has another element type");
    }
    std::size_t count = 1;
    for (std::int32_t i = 0; i < out.ndim; ++i) count *= static_cast<std::size_t>(out.shape[i]);
    return {static_cast<T*>(out.data), count};
  }
  /// Output `index` as a tensor that keeps the handle alive (dabke_handle_output_dlpack).
  ManagedTensor dlpack(std::size_t index = 0) const {
    DLManagedTensor* out = nullptr;
    detail::check(dabke_handle_output_dlpack(handle_, index, &out));
    return ManagedTensor(out);
  }
  /// The same in the form of DLPack 1.0 and later.
  ManagedTensorVersioned dlpack_versioned(std::size_t index = 0) const {
    DLManagedTensorVersioned* out = nullptr;
    detail::check(dabke_handle_output_dlpack_versioned(handle_, index, &out));
    return ManagedTensorVersioned(out);
  }
  std::span<const std::int64_t> received_splits() const {
    const std::int64_t* splits = nullptr;
    std::size_t count = 0;
    detail::check(dabke_handle_received_splits(handle_, &splits, &count));
    return {splits, count};
  }
  dabke_process_set process_set() const {
    dabke_process_set id = DABKE_WORLD;
    detail::check(dabke_handle_process_set(handle_, &id));
    return id;
  }
  /// send, recv: the world rank of the sender.
  int sender() const {
    std::int32_t rank = 0;
    detail::check(dabke_handle_sender(handle_, &rank));
    return rank;
  }
  int last_joined_rank() const {
    std::int32_t rank = -1;
    detail::check(dabke_handle_last_joined_rank(handle_, &rank));
    return rank;
  }

 private:
  static bool is_held(dabke_status status) {
    if (status != DABKE_IN_PROGRESS) detail::check(status);
    return status == DABKE_OK;
  }

  dabke_handle* handle_ = nullptr;
};

/// A job that the program starts by itself, over an allgather of its processes (dabke_init_options).
struct Start {
  int rank = 0;  // this process's number among the processes that exchange reaches
  int size = 1;  // the number of these processes
  /// Sends `mine` to all processes, and fills `all` with the bytes of all, in the order of their ranks. init
  /// calls it twice, on its own thread, and throws its exceptions again.
  std::function<void(std::span<const std::byte> mine, std::span<std::byte> all)> exchange;
  std::vector<std::int32_t> ranks = {};  // the processes of the job, in the order of their ranks; empty: all
};

/// dabke_init with `start` instead of the environment. The other options are used as given.
inline void init(const Start& start, dabke_init_options options = DABKE_INIT_OPTIONS_INIT) {
  struct Call {
    const Start& start;
    std::exception_ptr thrown = nullptr;
  } call{start};
  options.rank = start.rank;
  options.size = start.size;
  options.ranks = start.ranks.empty() ? nullptr : start.ranks.data();
  options.ranks_count = start.ranks.size();
  options.exchange_context = &call;
  if (start.exchange) {
    options.exchange = [](void* context, const void* mine, void* all, size_t capacity) noexcept {
      Call& in = *static_cast<Call*>(context);
      try {
        in.start.exchange({static_cast<const std::byte*>(mine), capacity},
                          {static_cast<std::byte*>(all), capacity * static_cast<size_t>(in.start.size)});
        return 0;
      } catch (...) {
        if (!in.thrown) in.thrown = std::current_exception();
        return 1;
      }
    };
  }
  const dabke_status status = dabke_init(&options);
  if (call.thrown) std::rethrow_exception(call.thrown);
  detail::check(status);
}

/// Joins the job, and leaves it at the end of the scope.
class Session {
 public:
  explicit Session(const dabke_init_options* options = nullptr) { detail::check(dabke_init(options)); }
  explicit Session(const Start& start, const dabke_init_options& options = DABKE_INIT_OPTIONS_INIT) {
    init(start, options);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { (void)dabke_shutdown(); }
};

/// A rank that has been lost (dabke_lost_rank).
struct LostRank {
  int rank = 0;  // in the epoch before
  std::string host;
  std::string why;
};

/// An epoch of a job (dabke_epoch).
struct Epoch {
  std::uint64_t number = 0;
  int rank = -1;
  int size = 0;
  std::vector<int> former_ranks;               // by rank; -1: a new process
  std::optional<std::uint64_t> newest_commit;  // of all ranks
  std::vector<int> holders;                    // of the newest commit
  std::vector<LostRank> lost;                  // since the epoch before
  std::optional<std::string> left;             // why this process has left the job; it has no runtime then
};

namespace detail {
inline Epoch epoch_of(const dabke_epoch& from) {
  Epoch epoch{from.epoch, from.rank, from.size, {}, {}, {}, {}, {}};
  if (from.size > 0) epoch.former_ranks.assign(from.former_ranks, from.former_ranks + from.size);
  if (from.has_commit != 0) epoch.newest_commit = from.newest_commit;
  if (from.holder_count > 0) epoch.holders.assign(from.holders, from.holders + from.holder_count);
  for (std::size_t i = 0; i < from.lost_count; ++i)
    epoch.lost.push_back({from.lost[i].rank, from.lost[i].host, from.lost[i].why});
  if (from.left_why != nullptr) epoch.left = from.left_why;
  return epoch;
}
}  // namespace detail

/// Leaves this epoch and joins the next one (dabke_next_epoch). `commit` is the number of this process's
/// newest commit; nothing if it has no state. `repeated_steps` are training steps after that commit that this
/// process takes again, for dabkerun's line.
inline Epoch next_epoch(std::optional<std::uint64_t> commit = {}, std::uint64_t repeated_steps = 0) {
  dabke_epoch_options options = DABKE_EPOCH_OPTIONS_INIT;
  options.has_commit = commit ? 1 : 0;
  options.commit = commit.value_or(0);
  options.repeated_steps = repeated_steps;
  dabke_epoch result = DABKE_EPOCH_INIT;
  detail::check(dabke_next_epoch(&options, &result));
  return detail::epoch_of(result);
}
/// The epoch in which this process is (dabke_current_epoch), in any job.
inline Epoch current_epoch() {
  dabke_epoch result = DABKE_EPOCH_INIT;
  detail::check(dabke_current_epoch(&result));
  return detail::epoch_of(result);
}
/// dabke_announced_changes: not 0 if all ranks should call next_epoch at their next commit.
inline std::uint64_t announced_changes() { return dabke_announced_changes(); }
inline bool is_elastic() { return dabke_is_elastic() != 0; }

inline int rank() { return dabke_rank(); }
inline int size() { return dabke_size(); }
inline int local_rank() { return dabke_local_rank(); }
inline int local_size() { return dabke_local_size(); }

namespace detail {

template <class Start>
Handle start(Start&& begin, const Tensor& input, const Tensor& output, const Options& options) {
  const DLTensor in = input.dl();
  const DLTensor out = output.dl();
  const dabke_options c = options.c();
  dabke_handle* handle = nullptr;
  check(begin(&in, output.empty() ? nullptr : &out, &c, &handle));
  return Handle(handle);
}

template <class Start>
Handle start_group(Start&& begin, std::span<const std::string> names, std::span<const Tensor> inputs,
                   const Options& options) {
  if (names.size() != inputs.size())
    throw Error(DABKE_ERROR_INVALID_ARGUMENT, "a group needs one name for each tensor");
  std::vector<const char*> c_names;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> pointers;
  for (const std::string& name : names) c_names.push_back(c_text(name));
  for (const Tensor& input : inputs) tensors.push_back(input.dl());
  for (const DLTensor& tensor : tensors) pointers.push_back(&tensor);
  const dabke_options c = options.c();
  dabke_handle* handle = nullptr;
  check(begin(c_names.data(), pointers.data(), pointers.size(), &c, &handle));
  return Handle(handle);
}

}  // namespace detail

// Each collective has an asynchronous form, and a blocking form without the suffix. dabke.h documents them.
// All throw Error.

inline Handle allreduce_async(const std::string& name, const Tensor& input, const Options& options = {},
                              const Tensor& output = {}) {
  return detail::start([&](auto... a) { return dabke_allreduce_async(detail::c_text(name), a...); }, input,
                       output, options);
}
inline void allreduce(const std::string& name, const Tensor& input, const Options& options = {},
                      const Tensor& output = {}) {
  detail::start(
      [&](auto in, auto out, auto c, auto) { return dabke_allreduce(detail::c_text(name), in, out, c); },
      input, output, options);
}
inline Handle broadcast_async(const std::string& name, const Tensor& input, const Options& options = {},
                              const Tensor& output = {}) {
  return detail::start([&](auto... a) { return dabke_broadcast_async(detail::c_text(name), a...); }, input,
                       output, options);
}
inline void broadcast(const std::string& name, const Tensor& input, const Options& options = {},
                      const Tensor& output = {}) {
  detail::start(
      [&](auto in, auto out, auto c, auto) { return dabke_broadcast(detail::c_text(name), in, out, c); },
      input, output, options);
}
inline Handle send_async(const std::string& name, const Tensor& tensor, int peer,
                         const Options& options = {}) {
  return detail::start(
      [&](auto in, auto, auto... a) { return dabke_send_async(detail::c_text(name), in, peer, a...); },
      tensor, {}, options);
}
inline void send(const std::string& name, const Tensor& tensor, int peer, const Options& options = {}) {
  detail::start([&](auto in, auto, auto c, auto) { return dabke_send(detail::c_text(name), in, peer, c); },
                tensor, {}, options);
}
inline Handle recv_async(const std::string& name, const Tensor& tensor, int peer,
                         const Options& options = {}) {
  return detail::start(
      [&](auto in, auto, auto... a) { return dabke_recv_async(detail::c_text(name), in, peer, a...); },
      tensor, {}, options);
}
inline void recv(const std::string& name, const Tensor& tensor, int peer, const Options& options = {}) {
  detail::start([&](auto in, auto, auto c, auto) { return dabke_recv(detail::c_text(name), in, peer, c); },
                tensor, {}, options);
}
inline Handle reducescatter_async(const std::string& name, const Tensor& input, const Options& options = {},
                                  const Tensor& output = {}) {
  return detail::start([&](auto... a) { return dabke_reducescatter_async(detail::c_text(name), a...); },
                       input, output, options);
}
inline Handle reducescatter(const std::string& name, const Tensor& input, const Options& options = {},
                            const Tensor& output = {}) {
  Handle handle = reducescatter_async(name, input, options, output);
  handle.wait();
  return handle;
}
inline Handle allgather_async(const std::string& name, const Tensor& input, const Options& options = {}) {
  return detail::start(
      [&](auto in, auto, auto... a) { return dabke_allgather_async(detail::c_text(name), in, a...); }, input,
      {}, options);
}
inline Handle allgather(const std::string& name, const Tensor& input, const Options& options = {}) {
  return detail::start(
      [&](auto in, auto, auto... a) { return dabke_allgather(detail::c_text(name), in, a...); }, input, {},
      options);
}
/// Writes into `output`, whose first dimension must be that of the result.
inline Handle allgather_into_async(const std::string& name, const Tensor& input, const Tensor& output,
                                   const Options& options = {}) {
  return detail::start([&](auto... a) { return dabke_allgather_into_async(detail::c_text(name), a...); },
                       input, output, options);
}
inline void allgather_into(const std::string& name, const Tensor& input, const Tensor& output,
                           const Options& options = {}) {
  detail::start(
      [&](auto in, auto out, auto c, auto) { return dabke_allgather_into(detail::c_text(name), in, out, c); },
      input, output, options);
}
inline Handle alltoall_async(const std::string& name, const Tensor& input, const Options& options = {}) {
  return detail::start(
      [&](auto in, auto, auto... a) { return dabke_alltoall_async(detail::c_text(name), in, a...); }, input,
      {}, options);
}
inline Handle alltoall(const std::string& name, const Tensor& input, const Options& options = {}) {
  return detail::start(
      [&](auto in, auto, auto... a) { return dabke_alltoall(detail::c_text(name), in, a...); }, input, {},
      options);
}
/// Writes into `output`, whose first dimension must be that of the result.
inline Handle alltoall_into_async(const std::string& name, const Tensor& input, const Tensor& output,
                                  const Options& options = {}) {
  return detail::start([&](auto... a) { return dabke_alltoall_into_async(detail::c_text(name), a...); },
                       input, output, options);
}
inline void alltoall_into(const std::string& name, const Tensor& input, const Tensor& output,
                          const Options& options = {}) {
  detail::start(
      [&](auto in, auto out, auto c, auto) { return dabke_alltoall_into(detail::c_text(name), in, out, c); },
      input, output, options);
}
/// Works in place; one handle for the group.
inline Handle grouped_allreduce_async(std::span<const std::string> names, std::span<const Tensor> inputs,
                                      const Options& options = {}) {
  return detail::start_group(
      [](auto names, auto inputs, auto... a) {
        return dabke_grouped_allreduce_async(names, inputs, nullptr, a...);
      },
      names, inputs, options);
}
inline Handle grouped_allgather_async(std::span<const std::string> names, std::span<const Tensor> inputs,
                                      const Options& options = {}) {
  return detail::start_group([](auto... a) { return dabke_grouped_allgather_async(a...); }, names, inputs,
                             options);
}
inline Handle grouped_reducescatter_async(std::span<const std::string> names, std::span<const Tensor> inputs,
                                          const Options& options = {}) {
  return detail::start_group(
      [](auto names, auto inputs, auto... a) {
        return dabke_grouped_reducescatter_async(names, inputs, nullptr, a...);
      },
      names, inputs, options);
}
inline void barrier(const Options& options = {}) {
  const dabke_options c = options.c();
  detail::check(dabke_barrier(&c));
}
/// Returns the world rank that joined last.
inline int join(const Options& options = {}) {
  const dabke_options c = options.c();
  std::int32_t last = -1;
  detail::check(dabke_join(&c, &last));
  return last;
}

inline dabke_process_set add_process_set(std::span<const std::int32_t> ranks) {
  dabke_process_set id = DABKE_WORLD;
  detail::check(dabke_add_process_set(ranks.data(), ranks.size(), &id));
  return id;
}
inline dabke_process_set add_process_set(std::initializer_list<std::int32_t> ranks) {
  return add_process_set(std::span(ranks.begin(), ranks.size()));
}
inline void remove_process_set(dabke_process_set id) { detail::check(dabke_remove_process_set(id)); }

/// Called by the members of the set only. Handle::process_set() returns the id.
inline Handle add_process_set_among_members_async(std::span<const std::int32_t> ranks) {
  dabke_handle* handle = nullptr;
  detail::check(dabke_add_process_set_among_members_async(ranks.data(), ranks.size(), &handle));
  return Handle(handle);
}
inline dabke_process_set add_process_set_among_members(std::span<const std::int32_t> ranks) {
  dabke_process_set id = DABKE_WORLD;
  detail::check(dabke_add_process_set_among_members(ranks.data(), ranks.size(), &id));
  return id;
}
inline dabke_process_set add_process_set_among_members(std::initializer_list<std::int32_t> ranks) {
  return add_process_set_among_members(std::span(ranks.begin(), ranks.size()));
}
inline Handle remove_process_set_among_members_async(dabke_process_set id) {
  dabke_handle* handle = nullptr;
  detail::check(dabke_remove_process_set_among_members_async(id, &handle));
  return Handle(handle);
}
inline void remove_process_set_among_members(dabke_process_set id) {
  detail::check(dabke_remove_process_set_among_members(id));
}

/// Starts the timeline on all ranks (dabke_start_timeline).
inline void start_timeline(const std::string& path, bool mark_cycles = false) {
  detail::check(dabke_start_timeline(detail::c_text(path), mark_cycles ? 1 : 0));
}
inline void stop_timeline() { detail::check(dabke_stop_timeline()); }
/// Marks in the timeline that training step `step` has ended.
inline void mark_step(std::uint64_t step) {
  detail::check(dabke_mark_step(step));
  ++detail::marked_steps;
}

/// A span in the timeline that lasts as long as the object, on the row of its thread. The thread that makes
/// the object must destroy it.
class Span {
 public:
  explicit Span(const char* name) { detail::check(dabke_annotate_begin(name)); }
  explicit Span(const std::string& name) : Span(detail::c_text(name)) {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() { (void)dabke_annotate_end(); }
};

}  // namespace dabke

#endif
