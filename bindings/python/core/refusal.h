// Arguments of a collective that are refused before C sees them: arrays that cannot be described to it, and what the
// layers above refuse themselves.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/python/core/errors.h"

namespace dabke::python {

/// What is wrong with an argument, before the call's name is put in front of it. Python sees the class of dabke.errors.
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

/// The C API's number of a collective, by its name without "grouped_"; nothing for a name that is not in the
/// table, which is beside the collectives.
std::optional<dabke_collective> collective_of(std::string_view name);

/// The call that is refused. A group goes by the name of its first tensor, as in C.
struct RefusedCall {
  std::string_view collective;  // as C calls it, without "grouped"
  const char* name;
  dabke_process_set process_set;
};

/// Throws `error`, a Python exception, for a call that the set's other ranks may have made: they get its text, too. Every
/// refusal by which this rank stays away from a collective comes through here.
[[noreturn]] void refuse(const RefusedCall& call, nb::handle error);

/// What `describe` gives. What it throws is refused.
template <class Describe>
auto or_refuse(const RefusedCall& call, Describe describe) {
  try {
    return describe();
  } catch (const ArgumentError& error) {
    const std::string text = std::string(call.collective) + " '" + call.name + "': " + error.text();
    refuse(call, error_of(error.status(), text));
  } catch (const nb::python_error& error) {  // what the exporter of an array has raised
    refuse(call, error.value());
  }
}

}  // namespace dabke::python
