// Arguments of a collective that are refused before the call reaches C: arrays that cannot be described to C,
// and the refusals of the layers above.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/python/core/errors.h"

namespace dabke::python {

/// The error of an argument. Its text lacks the call's name, which is put in front of it later. In Python it
/// becomes the class of dabke.errors for its status.
class ArgumentError : public std::exception {
 public:
  ArgumentError(dabke_status status, std::string text) : status_(status), text_(std::move(text)) {}
  explicit ArgumentError(std::string text) : ArgumentError(DABKE_ERROR_INVALID_ARGUMENT, std::move(text)) {}

  dabke_status status() const { return status_; }
  const std::string& text() const { return text_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  dabke_status status_;
  std::string text_;
};

/// The C API's number of a collective, by its name without "grouped_"; nothing for an unknown name.
std::optional<dabke_collective> collective_of(std::string_view name);

/// The refused call. `name` of a group is the name of its first tensor, as in C.
struct RefusedCall {
  std::string_view collective;  // its name in C, without "grouped"
  const char* name;
  dabke_process_set process_set;
};

/// Throws `error`, a Python exception, for a call that the set's other ranks may have made. They get its
/// text, too. Every refusal that keeps this rank out of a collective must go through this function.
[[noreturn]] void refuse(const RefusedCall& call, nb::handle error);

/// Returns the result of `describe`. Refuses the call with the exception that `describe` throws.
template <class Describe>
auto or_refuse(const RefusedCall& call, Describe describe) {
  try {
    return describe();
  } catch (const ArgumentError& error) {
    const std::string text = std::string(call.collective) + " '" + call.name + "': " + error.text();
    refuse(call, error_of(error.status(), text));
  } catch (const nb::python_error& error) {  // raised by the exporter of an array
    refuse(call, error.value());
  }
}

}  // namespace dabke::python
