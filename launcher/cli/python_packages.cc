#include "launcher/cli/python_packages.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <sstream>

#include <fmt/format.h>

#include "launcher/process/program.h"
#include "launcher/reach/remote_shell.h"
#include "launcher/reach/watched_process.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPythonLimit = 5s;

/// Prints a line for each package: its name, version and file.
constexpr const char* kScript = R"(
import importlib.util, importlib.metadata
for name in ("dabke", "torch"):
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "of-no-version"
        print(name, version, spec.origin)
print("end")
)";

std::string output_until(TimePoint limit, const Fd& out) {
  std::string text;
  std::array<char, 4096> chunk;
  while (Clock::now() < limit) {
    pollfd entry{out.get(), POLLIN, 0};
    if (::poll(&entry, 1, poll_timeout_ms(limit)) <= 0) continue;
    const ssize_t got = ::read(out.get(), chunk.data(), chunk.size());
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

PythonPackages find_python_packages(const Environment& environment) {
  PythonPackages found;
  const std::string path = environment("PATH").value_or(kStandardPath);
  found.python = environment(kPythonThatRuns).value_or("");
  for (const char* const name : {"python", "python3"}) {
    if (found.python.empty()) found.python = find_program(name, path).path;
  }
  if (found.python.empty()) return found;
  auto process = start_shell({found.python, "-c", kScript});
  if (!process.is_ok()) {
    found.trouble = process.status().message();
    return found;
  }
  const TimePoint limit = Clock::now() + kPythonLimit;
  WatchedProcess watched(process->pid, std::move(process->words));
  const std::string text = output_until(limit, process->in);
  if (!watched.wait_until(limit)) {
    watched.send(SIGKILL);
    watched.wait_until(kNever);
  }
  std::istringstream lines(text);
  bool is_whole = false;
  for (std::string name, version, origin; lines >> name && !is_whole;) {
    is_whole = name == "end";
    if (is_whole || !(lines >> version) || !std::getline(lines >> std::ws, origin)) continue;
    (name == "dabke" ? found.dabke : found.torch) = version;
    if (name == "dabke") found.dabke_path = origin;
  }
  if (!is_whole) found.trouble = fmt::format("it {}", watched.how_it_ended());
  return found;
}

}  // namespace dabke::launcher
