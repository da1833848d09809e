// The options of a collective, made once and used for any number of submits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/python/core/errors.h"

namespace dabke::python {

/// cudaStreamLegacy, the default stream. In the options, 0 means no stream.
inline constexpr std::uintptr_t kLegacyStream = 1;

/// dabke_options, with the memory that it points to. Never changes, so a submit may read it at any time.
class Options {
 public:
  Options() = default;
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  const dabke_options* c() const { return &options_; }

 private:
  friend void bind_options(nb::module_& module);

  dabke_options options_ = DABKE_OPTIONS_INIT;
  std::vector<std::int64_t> splits_;
  std::string group_;
};

void bind_options(nb::module_& module);

}  // namespace dabke::python
