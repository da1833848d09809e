// Functions that both ways of naming a stack frame use.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace dabke::diagnosis {

inline std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : symbol;
}

/// Returns "step() at train.cc:42 (train)", without the parts that are not known. `address`
/// is relative to the file.
inline std::string frame_text(const char* symbol, const std::string& source, std::string_view file,
                              std::uintptr_t address) {
  const auto slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  std::string text = symbol != nullptr ? demangled(symbol) : fmt::format("{:#x}", address);
  if (!source.empty()) text += " at " + source;
  if (!file.empty()) text += fmt::format(" ({})", file);
  return text;
}

}  // namespace dabke::diagnosis
