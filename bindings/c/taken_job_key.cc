#include "bindings/c/taken_job_key.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/base/threads/owned.h"
#include "runtime/store/job_secret.h"

namespace dabke {
namespace {

constexpr const char* kVariable = "DABKE_JOB_KEY";

/// Overwrites the value through a pipe, so that the kernel writes. The memory may be read-only, such as a
/// constant that the application has passed to putenv. The kernel refuses to write there; a direct write
/// would crash.
void overwrite(char* value, std::size_t length) {
  constexpr std::size_t kMost = 4096;  // fits into every pipe; longer than any key
  int ends[2];
  if (length > kMost || ::pipe2(ends, O_CLOEXEC) != 0) return;
  const Fd read_end(ends[0]), write_end(ends[1]);
  const std::string text(length, store::kTakenKeyDigit);
  if (::write(write_end.get(), text.data(), length) == static_cast<ssize_t>(length))
    (void)!::read(read_end.get(), value, length);
}

}  // namespace

Environment TakenJobKey::take(Environment environment) {
  const auto value = environment(kVariable);
  if (value && !value->empty() && !store::is_taken_key(*value)) {
    kept_ = *value;
    if (char* const place = std::getenv(kVariable)) overwrite(place, value->size());
  }
  return [kept = kept_, environment = std::move(environment)](const std::string& name) {
    auto value = environment(name);
    return name == kVariable && kept && value && store::is_taken_key(*value) ? kept : value;
  };
}

}  // namespace dabke
