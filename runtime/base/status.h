// Errors as values: a Status is a code and a message, a Result<T> is a T or a Status.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace dabke {

// One row per code: its name and its meaning. The order gives the numbers; a test compares them with dabke.h.
#define DABKE_CODES(X)                                                                    \
  X(ok, "ok")                                                                             \
  X(in_progress, "not complete yet")                                                      \
  X(invalid_argument, "an argument is not valid")                                         \
  X(not_initialized, "dabke_init has not been called, or dabke_shutdown has")             \
  X(already_initialized, "dabke_init was called twice")                                   \
  X(mismatch, "ranks passed different shapes, dtypes, operations, roots or process sets") \
  X(duplicate_name, "a tensor of this name is still pending")                             \
  X(unknown_process_set, "no such process set, or this rank is not in it")                \
  X(peer_lost, "a rank of the job is gone")                                               \
  X(shut_down, "a rank has shut down")                                                    \
  X(stalled, "the stall shutdown time was reached")                                       \
  X(aborted, "the job was aborted")                                                       \
  X(timeout, "the time limit was reached")                                                \
  X(not_implemented, "not implemented yet")                                               \
  X(not_built, "this build lacks this part")                                              \
  X(unsupported, "no backend can run this")                                               \
  X(out_of_memory, "out of memory")                                                       \
  X(transport, "a network or operating system call failed")                               \
  X(forked, "this process is a fork of a rank; only the parent may call")                 \
  X(internal, "a defect of the runtime")                                                  \
  X(interrupted, "the wait was stopped by its check, and the operation is still pending")

enum class Code : int {
#define X(id, text) id,
  DABKE_CODES(X)
#undef X
};

/// The code's name as in `DABKE_ERROR_<NAME>`, lower case.
std::string_view name_of(Code code);
/// The meaning of the code, in one line.
std::string_view text_of(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status ok() { return {}; }

  bool is_ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// A Status with `what` and the text of `errno_value`; code transport.
Status system_error(std::string_view what, int errno_value);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : held_(std::in_place_index<1>, std::move(status)) {
    assert(!std::get<1>(held_).is_ok() && "a Result is a value or an error");
  }

  bool is_ok() const { return held_.index() == 0; }
  explicit operator bool() const { return is_ok(); }
  T& operator*() { return std::get<0>(held_); }
  const T& operator*() const { return std::get<0>(held_); }
  T* operator->() { return &std::get<0>(held_); }
  const T* operator->() const { return &std::get<0>(held_); }
  T take() { return std::move(std::get<0>(held_)); }
  Status status() const { return is_ok() ? Status() : std::get<1>(held_); }

 private:
  std::variant<T, Status> held_;
};

// Passes an error up: returns the Status from the enclosing function.
#define DABKE_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                              \
    if (::dabke::Status dabke_status_ = (expression); !dabke_status_.is_ok()) return dabke_status_; \
  } while (false)

#define DABKE_CONCAT_(a, b) a##b
#define DABKE_CONCAT(a, b) DABKE_CONCAT_(a, b)
// `DABKE_ASSIGN_OR_RETURN(auto link, connect(...));` declares `link`, or passes the error up.
#define DABKE_ASSIGN_OR_RETURN(declaration, expression) \
  DABKE_ASSIGN_IMPL_(DABKE_CONCAT(dabke_result_, __COUNTER__), declaration, expression)
#define DABKE_ASSIGN_IMPL_(result, declaration, expression) \
  auto result = (expression);                               \
  if (!result.is_ok()) return result.status();              \
  declaration = result.take()

}  // namespace dabke
