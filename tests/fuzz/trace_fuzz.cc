// A trace of any tool, with arbitrary contents. It is read to its end or refused by name. A trace that was
// read becomes a report as JSON and as text, and can be compared.
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/timeline/report/report.h"
#include "tests/fuzz/check.h"
#include "tests/temporary_directory.h"
#include "timeline_viewer/report_text.h"
#include "timeline_viewer/trace_analysis.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dabke::test::TemporaryDirectory place;
  const std::string path = place / "trace.json";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto report = dabke::viewer::report_of_traces({path}, {});
  if (!report) {
    FUZZ_CHECK(report.status().message().find(path) != std::string::npos);
    return 0;
  }
  FUZZ_CHECK(nlohmann::json::parse(dabke::timeline::json_of(*report), nullptr, false).is_object());
  FUZZ_CHECK(!dabke::viewer::text_of(*report).empty());
  FUZZ_CHECK(!dabke::viewer::difference_text(*report, *report).empty());
  return 0;
}
