#include "runtime/diagnosis/live/live_statistics_ticket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/owned.h"

namespace dabke::diagnosis {
namespace {

constexpr std::string_view kHead = "dabke-look 1";

Status cannot(const char* what, const std::string& path, int error) {
  return {Code::transport, fmt::format("cannot {} {}: {}", what, path, ::strerror(error))};
}

}  // namespace

links::Handshake::Self LiveStatisticsTicket::handshake_of(Rank self) const {
  links::Handshake::Self side;
  side.job_id = job;
  side.job_key = key;
  side.epoch = epoch;
  side.rank = self;
  return side;
}

Result<JobKey> look_key(const JobKey& job_key) {
  constexpr std::string_view kPurpose = "dabke: looking at the job";
  DABKE_ASSIGN_OR_RETURN(const Digest digest, hmac_sha256(job_key, std::as_bytes(std::span(kPurpose))));
  JobKey key;
  static_assert(sizeof key == sizeof digest);
  std::ranges::copy(digest, key.begin());
  return key;
}

Result<std::string> look_directory() {
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    return Status(Code::invalid_argument, "HOME is not set, but the key file belongs below it");
  return fmt::format("{}/.dabke", home);
}

std::string look_file_name(const std::string& address) {
  return fmt::format("{}{}", kLookFilePrefix, address);
}

Status write_ticket(const LiveStatisticsTicket& ticket, const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/'));
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return cannot("make", directory, errno);
  const std::string text = fmt::format("{}\n{}\n{} {} {}\n", kHead, ticket.address, to_hex(ticket.job),
                                       ticket.epoch, to_hex(ticket.key));
  // The file is first written under a name of its own. So a reader sees all of it or nothing, and
  // its mode is always 0600.
  const std::string draft = fmt::format("{}.{}", path, ::getpid());
  ::unlink(draft.c_str());
  const Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return cannot("write", draft, errno);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return cannot("write", draft, errno);
  if (::rename(draft.c_str(), path.c_str()) != 0) return cannot("write", path, errno);
  return {};
}

Result<LiveStatisticsTicket> read_ticket(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return cannot("read", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return cannot("read", path, errno);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return Status(
        Code::invalid_argument,
        fmt::format("{} must belong to this user alone (mode 0600), because it contains a secret key", path));
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return cannot("read", path, errno);
  std::istringstream in(std::string(bytes.data(), static_cast<std::size_t>(got)));
  LiveStatisticsTicket ticket;
  std::string head, job, key;
  if (!std::getline(in, head) || head != kHead || !std::getline(in, ticket.address) ||
      !(in >> job >> ticket.epoch >> key) || !from_hex(job, ticket.job).is_ok() ||
      !from_hex(key, ticket.key).is_ok())
    return Status(Code::mismatch, fmt::format("{} is not a key file, which rank 0 of a job writes", path));
  return ticket;
}

}  // namespace dabke::diagnosis
