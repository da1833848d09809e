#include "timeline_viewer/view.h"

#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "runtime/base/threads/owned.h"
#include "runtime/timeline/joining/merged_file.h"
#include "timeline_viewer/gz_file.h"
#include "timeline_viewer/page.h"
#include "timeline_viewer/page_server.h"

namespace dabke::viewer {
namespace {

constexpr int kGzip = 15 + 16;  // for zlib: the largest window, in gzip's form

/// Returns names of the traces for people: the names of their files, or if two are equal, the
/// paths as they were given.
std::vector<std::string> names_of(const std::vector<std::string>& traces) {
  std::vector<std::string> names;
  for (const std::string& trace : traces) names.push_back(std::filesystem::path(trace).filename());
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? names : traces;
}

/// Returns the file's content, compressed once, even if the file is compressed already.
Result<std::string> compressed(const std::string& path) {
  DABKE_ASSIGN_OR_RETURN(const GzFile file, open_gz(path));
  z_stream stream{};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return Status(Code::out_of_memory, fmt::format("out of memory while compressing '{}'", path));
  std::string in(kGzChunk, '\0'), out(kGzChunk, '\0'), all;
  int got = 0;
  do {
    got = ::gzread(file.get(), in.data(), static_cast<unsigned>(in.size()));
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(got > 0 ? got : 0);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      (void)::deflate(&stream, got > 0 ? Z_NO_FLUSH : Z_FINISH);
      all.append(out, 0, out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (got > 0);
  ::deflateEnd(&stream);
  return all;
}

void open_browser(const std::string& address) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  std::array<char*, 3> arguments = {const_cast<char*>("xdg-open"), const_cast<char*>(address.c_str()),
                                    nullptr};
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, ignored;
  ::sigemptyset(&none);
  ::sigemptyset(&ignored);
  ::sigaddset(&ignored, SIGPIPE);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &ignored);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  (void)::posix_spawnp(&pid, arguments[0], nullptr, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
}

}  // namespace

Status export_page(const std::vector<std::string>& traces, const std::string& reports,
                   const std::string& output) {
  std::vector<PageTrace> made;
  const std::vector<std::string> names = names_of(traces);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    DABKE_ASSIGN_OR_RETURN(std::string bytes, compressed(traces[i]));
    made.push_back({names[i], std::move(bytes)});
  }
  DABKE_ASSIGN_OR_RETURN(const auto file, timeline::MergedFile::open(output));
  file->write(page_with(made, reports));
  return file->finish();
}

Status view_page(const std::vector<std::string>& traces, const std::string& reports, bool opens) {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a browser may close the connection in the middle of the trace
  const Fd stop(::signalfd(-1, &ends, SFD_CLOEXEC));
  if (!stop) return system_error("cannot wait for signals", errno);
  DABKE_ASSIGN_OR_RETURN(PageServer server,
                         PageServer::open(page_of_server(names_of(traces)), traces, reports));
  fmt::print("{}\nOpen it in a browser of this machine; Ctrl-C ends.\n", server.address());
  std::fflush(stdout);
  if (opens) open_browser(server.address());
  return server.serve(stop.get());
}

}  // namespace dabke::viewer
