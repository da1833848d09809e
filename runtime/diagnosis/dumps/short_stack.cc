#include "runtime/diagnosis/dumps/short_stack.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "runtime/base/text/counted.h"

namespace dabke::diagnosis {
namespace {

constexpr std::size_t kMostLines = 3;

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

bool is_own_python_file(std::string_view path) {
  constexpr std::array<std::string_view, 4> kOthers = {"/site-packages/", "/dist-packages/", "/lib/python",
                                                       "/python/dabke/"};
  return !path.starts_with('<') &&
         std::ranges::none_of(kOthers, [&](auto each) { return path.find(each) != std::string_view::npos; });
}

/// Returns "train.py:12 in load" for `  File "train.py", line 12 in load`. Returns nothing for other lines,
/// and for files that are not the program's own.
std::optional<std::string> own_python_line(std::string_view line) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
  const auto end = line.find(kLine);
  if (!line.starts_with(kFile) || end == std::string_view::npos) return std::nullopt;
  const std::string_view path = line.substr(kFile.size(), end - kFile.size());
  const std::string_view rest = line.substr(end + kLine.size());
  const auto in = rest.find(kIn);
  if (in == std::string_view::npos || !is_own_python_file(path)) return std::nullopt;
  return fmt::format("{}:{}{}", path, rest.substr(0, in), rest.substr(in));
}

/// Python lists the main thread last. A stack in an unknown form is shown unchanged.
Lines own_lines_of_application(const std::string& stack) {
  std::vector<Lines> threads;
  Lines others;
  for (const std::string& line : lines_of(stack)) {
    if (line.ends_with("(most recent call first):")) {
      threads.emplace_back();
    } else if (!threads.empty()) {
      if (auto own = own_python_line(line)) threads.back().push_back(*std::move(own));
    } else if (!line.empty()) {
      others.push_back(line);
    }
  }
  if (threads.empty()) return others;
  const auto shown =
      std::ranges::find_if(threads.rbegin(), threads.rend(), [](const Lines& each) { return !each.empty(); });
  return shown == threads.rend() ? Lines() : *shown;
}

/// True for a remark on what the thread does, such as "(asleep in the kernel: poll)". It precedes the frames.
bool is_remark(std::string_view frame) {
  return frame.starts_with('(') && !frame.starts_with("(anonymous namespace)");
}

/// Returns "train" for "load() at data.cc:7 (train)".
std::string_view module_of(std::string_view frame) {
  const auto open = frame.rfind('(');
  return open == std::string_view::npos || !frame.ends_with(')')
             ? ""
             : frame.substr(open + 1, frame.size() - open - 2);
}

bool is_own_native_frame(std::string_view frame) {
  const std::string_view module = module_of(frame);
  if (is_remark(frame) || module.empty() || frame.starts_with("0x") || frame.starts_with("_start "))
    return false;
  // The last three are the sanitizers', whose interceptors lie above the functions that the program calls.
  constexpr std::array<std::string_view, 9> kOthers = {"libdabke", "libpython", "python",  "_core",   "libc.",
                                                       "ld-",      "libtsan",   "libasan", "libubsan"};
  if (std::ranges::any_of(kOthers, [&](auto each) { return module.starts_with(each); })) return false;
  return frame.find(" at ") != std::string_view::npos || module.find(".so") == std::string_view::npos;
}

/// Returns "data.cc:7 in load()". A frame without debug information is returned unchanged,
/// such as "load() (train)".
std::string own_native_line(std::string_view frame) {
  const std::string_view code = frame.substr(0, frame.rfind(" ("));
  const auto at = code.rfind(" at ");
  return at == std::string_view::npos ? std::string(frame)
                                      : fmt::format("{} in {}", code.substr(at + 4), code.substr(0, at));
}

const Dump::Stack* main_stack(const std::vector<Dump::Stack>& stacks) {
  const auto has_own = [](const Dump::Stack& each) {
    return std::ranges::any_of(each.frames, is_own_native_frame);
  };
  const auto own = std::ranges::find_if(stacks, has_own);
  return own != stacks.end() ? &*own : stacks.empty() ? nullptr : &stacks.front();
}

/// Returns a text such as "below it: pause (libc.so.6), asleep in the kernel: do_sys_pause";
/// empty if nothing is known.
std::string below(const Dump::Stack& stack, bool is_below_own) {
  std::string remark, innermost;
  std::size_t hidden = 0;
  for (const std::string& frame : stack.frames) {
    if (is_remark(frame)) {
      if (remark.empty()) remark = frame.substr(1, frame.size() - 2);
    } else if (is_own_native_frame(frame)) {
      break;
    } else if (innermost.empty()) {
      innermost = frame;
    } else {
      ++hidden;
    }
  }
  if (innermost.empty()) return remark.empty() ? "" : fmt::format("({})", remark);
  std::string text = innermost + (remark.empty() ? "" : ", " + remark);
  if (hidden > 0) text += fmt::format(" ({} more)", counted(hidden, "native frame"));
  return is_below_own ? "below it: " + text : text;
}

}  // namespace

std::vector<std::string> short_stack(const std::string& application_stack,
                                     const std::vector<Dump::Stack>& stacks) {
  Lines lines = own_lines_of_application(application_stack);
  const bool is_of_application = !application_stack.empty();
  const Dump::Stack* const native =
      is_of_application && !stacks.empty() ? &stacks.front() : main_stack(stacks);
  if (!is_of_application && native != nullptr) {
    for (const std::string& frame : native->frames)
      if (is_own_native_frame(frame)) lines.push_back(own_native_line(frame));
  }
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  if (native == nullptr) return lines;
  std::string rest = below(*native, !lines.empty());
  if (!rest.empty()) lines.push_back(std::move(rest));
  return lines;
}

}  // namespace dabke::diagnosis
