// A rank's file of records with arbitrary contents. It is read to its end or refused. The trace of its
// records is valid JSON, and as many arrows begin as end. If the first byte is odd, the checks of the blocks
// are corrected first, because random bytes would never pass them. The next rank of the job has the same
// records, so that there is something to join.
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/timeline/merge/merge.h"
#include "runtime/timeline/record_form.h"
#include "tests/fuzz/check.h"

namespace {

namespace fs = std::filesystem;

/// One folder for all runs.
class Place {
 public:
  Place() : path_(fs::temp_directory_path() / "dabke-fuzz-XXXXXX") {
    FUZZ_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~Place() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void set_checks_right(std::string& file) {
  dabke::timeline::BlockHead head;
  for (std::size_t at = sizeof(dabke::timeline::FilePreface); file.size() - at >= sizeof head;) {
    std::memcpy(&head, file.data() + at, sizeof head);
    const std::size_t content = at + sizeof head;
    if (head.bytes % 8 != 0 || head.bytes > file.size() - content) return;
    head.check = dabke::timeline::check_of(head, std::string_view(file).substr(content, head.bytes));
    std::memcpy(file.data() + at, &head, sizeof head);
    at = content + head.bytes;
  }
}

/// The same file for the next rank; empty if there is no next rank.
std::string of_next_rank(std::string file) {
  constexpr std::size_t kAt = sizeof(dabke::timeline::FilePreface) + sizeof(dabke::timeline::BlockHead);
  dabke::timeline::OriginHead origin;
  if (file.size() < kAt + sizeof origin) return {};
  std::memcpy(&origin, file.data() + kAt, sizeof origin);
  if (origin.size < 2 || origin.rank < 0 || origin.rank >= origin.size) return {};
  origin.rank = (origin.rank + 1) % origin.size;
  std::memcpy(file.data() + kAt, &origin, sizeof origin);
  set_checks_right(file);
  return file;
}

void check_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const auto trace = nlohmann::json::parse(in, nullptr, false);
  FUZZ_CHECK(trace.is_object() && trace["traceEvents"].is_array());
  std::int64_t arrows = 0;
  for (const auto& event : trace["traceEvents"]) {
    FUZZ_CHECK(event["ph"].is_string() && event["name"].is_string() && event["pid"].is_number());
    FUZZ_CHECK(event["ph"] == "M" || event["ts"] >= 0.0);
    FUZZ_CHECK(event["ph"] != "X" || event["dur"] >= 0.0);
    arrows += event["ph"] == "s" ? 1 : event["ph"] == "f" ? -1 : 0;
  }
  FUZZ_CHECK(arrows == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Place place;
  dabke::test::Input input(data, size);
  const bool sets_right = input.byte() % 2 == 1;
  std::string bytes(input.rest());
  if (sets_right && bytes.size() >= sizeof(dabke::timeline::FilePreface)) set_checks_right(bytes);
  std::vector<std::string> paths;
  for (const std::string& file : {bytes, of_next_rank(bytes)}) {
    if (!paths.empty() && file.empty()) continue;
    paths.push_back(place / ("records" + std::to_string(paths.size())));
    std::ofstream(paths.back(), std::ios::binary) << file;
  }
  const std::string trace = place / "trace";
  const auto files = dabke::timeline::JobFiles::open(paths);
  if (!files) return 0;
  FUZZ_CHECK(dabke::timeline::merge_records(*files, trace).is_ok());
  check_trace(trace);
  return 0;
}
