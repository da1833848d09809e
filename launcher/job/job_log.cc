#include "launcher/job/job_log.h"

#include <fmt/format.h>

namespace dabke::launcher {

void JobLog::log(std::string_view text) {
  console_.write(Console::Stream::error, fmt::format("dabkerun: {}\n", text));
  ++lines_;
}

}  // namespace dabke::launcher
