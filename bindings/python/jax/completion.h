// The end of a call that XLA does not wait for: the future that the handler has returned is completed when
// all operations of the call are.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "bindings/python/jax/xla_ffi.h"
#include "dabke/dabke.h"

namespace dabke::python::jax {

/// The operations of one call that are still pending. It deletes itself with the last of them.
class Completion {
 public:
  /// A completion of `operations` operations, at least one.
  ///   errors  nullptr where XLA gives no future; *error is then XLA's own
  static Completion* make(const xla::Api& api, std::size_t operations, xla::Error** error);

  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// The future that the handler returns to XLA in its frame.
  xla::Future* future() const { return future_; }

  /// dabke_callback: one operation has completed. `context` is the Completion.
  static void on_completed(void* context, dabke_handle* handle, dabke_status status);

  /// True if the calling thread is the runtime's for callbacks, on which nothing may wait. XLA runs there
  /// what follows.
  static bool is_on_callback_thread();

  /// Counts an operation that could not be submitted.
  void fail(dabke_status status, const char* text);

 private:
  Completion(const xla::Api& api, xla::Future* future, std::size_t operations)
      : api_(api), future_(future), left_(operations) {}
  ~Completion() = default;

  void note(dabke_status status, const char* text);
  void count_down();

  const xla::Api& api_;
  xla::Future* const future_;
  std::atomic<std::size_t> left_;
  std::mutex mutex_;
  dabke_status status_ = DABKE_OK;  // of the first that failed
  std::string text_;
};

}  // namespace dabke::python::jax
