#include "runtime/store/job_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/owned.h"

namespace dabke::store {
namespace {

/// Makes `path` with a random secret if it does not exist. Writes it under another name first, so that no
/// rank reads half of it.
Status make_secret_file(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return {};
  DABKE_ASSIGN_OR_RETURN(const JobSecret secret, random_job_secret());
  const std::string text = fmt::format("{}\n{}\n", to_hex(secret.id), to_hex(secret.key));
  const std::string temporary = fmt::format("{}.{}", path, to_hex(secret.id));
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return system_error(fmt::format("cannot create {}", temporary), errno);
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::close(fd.release()) == 0 &&
      (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);  // another rank was first
  const int error = errno;
  ::unlink(temporary.c_str());
  return written ? Status() : system_error(fmt::format("cannot write {}", path), error);
}

}  // namespace

Result<JobSecret> random_job_secret() {
  JobSecret secret;
  DABKE_RETURN_IF_ERROR(random_bytes(secret.id));
  DABKE_RETURN_IF_ERROR(random_bytes(secret.key));
  return secret;
}

Result<JobSecret> parse_job_secret(const std::string& id, const std::string& key) {
  JobSecret secret;
  if (const auto status = from_hex(id, secret.id); !status.is_ok()) {
    return Status(Code::invalid_argument, fmt::format("DABKE_JOB_ID: {}", status.message()));
  }
  if (is_taken_key(key)) {
    return Status(
        Code::invalid_argument,
        "DABKE_JOB_KEY was taken by the rank that started this program: only the rank's own process may call "
        "dabke_init. To start another job, use dabkerun. For a job of one rank, unset DABKE_SIZE, "
        "DABKE_RANK, DABKE_RENDEZVOUS, DABKE_JOB_ID, DABKE_JOB_KEY and dabkerun's HOROVOD_ variables");
  }
  if (!from_hex(key, secret.key).is_ok()) {
    return Status(Code::invalid_argument,
                  fmt::format("DABKE_JOB_KEY has {} characters, but must be {} hexadecimal digits",
                              key.size(), 2 * secret.key.size()));
  }
  return secret;
}

bool is_taken_key(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kTakenKeyDigit) == std::string_view::npos;
}

Result<JobSecret> job_secret_in(const std::string& directory) {
  const std::string path = directory + "/job-secret";
  DABKE_RETURN_IF_ERROR(make_secret_file(path));
  const auto refuse = [&](std::string_view why) {
    return Status(Code::invalid_argument,
                  fmt::format("{} {}; remove it, or set DABKE_JOB_ID and DABKE_JOB_KEY", path, why));
  };
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return refuse(fmt::format("cannot be read ({})", std::generic_category().message(errno)));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(fmt::format("fstat({})", path), errno);
  if (!S_ISREG(info.st_mode)) return refuse("is not a plain file");
  if (info.st_uid != ::geteuid())
    return refuse(fmt::format("belongs to user {}, not to {}", info.st_uid, ::geteuid()));
  if ((info.st_mode & 077) != 0) return refuse("can be used by other users, but contains the job's key");
  constexpr std::size_t kIdDigits = 32, kKeyDigits = 64, kLength = kIdDigits + 1 + kKeyDigits + 1;
  std::string text(kLength + 1, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  JobSecret secret;
  if (got != static_cast<ssize_t>(kLength) || !from_hex(text.substr(0, kIdDigits), secret.id).is_ok() ||
      !from_hex(text.substr(kIdDigits + 1, kKeyDigits), secret.key).is_ok()) {
    return refuse("does not contain a job's id and key");
  }
  return secret;
}

}  // namespace dabke::store
