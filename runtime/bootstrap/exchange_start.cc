#include "runtime/bootstrap/exchange_start.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/hmac.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/store/http_store.h"
#include "runtime/store/init_failure.h"
#include "runtime/store/job_secret.h"

namespace dabke::bootstrap {
namespace {

/// The size of a process's block, in both rounds. Longer lists are shown by their beginning and compared by
/// their digest. kMostHostAddresses IPv6 addresses with their ports fit in, and a job's secret.
constexpr std::size_t kBlockBytes = 1024;
constexpr std::size_t kMostHost = 255;
constexpr std::size_t kMostListed = 240;
constexpr std::size_t kMostError = 800;
/// The headings of the blocks. Another version of dabke has other headings.
constexpr std::string_view kHello = "dabke 1 hello";
constexpr std::string_view kNote = "dabke 1 note";
constexpr std::string_view kOk = "ok", kError = "error";

std::string beginning_of(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

Result<std::string> digest_of(const std::string& text) {
  DABKE_ASSIGN_OR_RETURN(const Digest digest, hmac_sha256({}, std::as_bytes(std::span(text))));
  return to_hex(std::span(digest).first(16));
}

/// A list in a form that can be compared and shown.
struct Listed {
  std::string shown, digest;
};
Result<Listed> listed(const std::string& text) {
  DABKE_ASSIGN_OR_RETURN(std::string digest, digest_of(text));
  return Listed{beginning_of(text, kMostListed), std::move(digest)};
}

class Exchange {
 public:
  Exchange(const Config& config, const ExchangeGroup& group) : config_(config), group_(group) {
    const auto me = std::ranges::find(group.members, group.number);
    if (me != group.members.end()) rank_ = static_cast<Rank>(me - group.members.begin());
  }

  Result<ExchangeStart> start(const Result<std::string>& host);
  Status fail(const Status& why);

 private:
  /// The facts that a member has given about itself.
  struct Hello {
    std::string host;
    Listed members, process_sets;
  };
  using Blocks = std::vector<std::vector<std::string>>;  // by rank, the lines after the heading

  Result<std::vector<std::string>> hello(const Result<std::string>& host) const;
  Result<Blocks> pass(std::string_view heading, const Result<std::vector<std::string>>& mine) const;
  Status find_failure(const Blocks& blocks) const;
  Result<std::vector<Hello>> read_hellos(const Blocks& blocks) const;
  Result<std::vector<std::string>> note(const Result<std::vector<Hello>>& all_hellos);
  Result<ExchangeStart> read_note(const Blocks& blocks, const std::vector<Hello>& all_hellos) const;
  Status not_a_member() const;

  const Config& config_;
  const ExchangeGroup& group_;
  std::optional<Rank> rank_;
  std::shared_ptr<store::Store> epoch_store_;  // rank 0's
};

Status Exchange::not_a_member() const {
  return {Code::invalid_argument,
          fmt::format("dabke_init: process {} of {} is not a rank of the job, whose ranks are processes {}; "
                      "it took part in exchange only",
                      group_.number, group_.count,
                      beginning_of(fmt::format("{}", fmt::join(group_.members, ",")), kMostListed))};
}

Result<std::vector<std::string>> Exchange::hello(const Result<std::string>& host) const {
  if (!host.is_ok()) return host.status();
  if (host->size() > kMostHost) {
    return Status(Code::invalid_argument,
                  fmt::format("the host name '{}' is longer than {} characters", *host, kMostHost));
  }
  DABKE_ASSIGN_OR_RETURN(const Listed members, listed(fmt::format("{}", fmt::join(group_.members, ","))));
  DABKE_ASSIGN_OR_RETURN(const Listed sets,
                         listed(process_sets_of(config_, static_cast<int>(group_.members.size()))));
  return std::vector{*host, members.shown, members.digest, sets.shown, sets.digest};
}

/// Sends the lines of this process, and returns the lines of the members of its job.
Result<Exchange::Blocks> Exchange::pass(std::string_view heading,
                                        const Result<std::vector<std::string>>& mine) const {
  std::string text = fmt::format("{}\n{}\n{}\n", heading, group_.number, group_.count);
  if (mine.is_ok()) {
    text += fmt::format("{}\n{}\n", kOk, fmt::join(*mine, "\n"));
  } else {
    text += fmt::format("{}\n{}\n{}\n", kError, static_cast<int>(mine.status().code()),
                        beginning_of(one_line(mine.status().message()), kMostError));
  }
  text.resize(kBlockBytes, '\0');
  std::vector<char> all(kBlockBytes * static_cast<std::size_t>(group_.count));
  DABKE_RETURN_IF_ERROR(group_.allgather(text, all));
  Blocks blocks;
  for (const int member : group_.members) {
    const std::string_view block(all.data() + kBlockBytes * static_cast<std::size_t>(member), kBlockBytes);
    auto lines = lines_of(block.substr(0, block.find('\0')));
    if (lines.size() < 4 || lines[0] != heading) {
      return Status(Code::mismatch,
                    fmt::format("process {} passed unknown data to exchange; install the same Dabke on all "
                                "ranks, and let exchange return what all processes passed in the same call",
                                member));
    }
    if (lines[1] != std::to_string(member) || lines[2] != std::to_string(group_.count)) {
      return Status(
          Code::mismatch,
          fmt::format(
              "exchange returned to process {} the block of process {} of {} in the place of process {} of "
              "{}. Give every process its own number, and return all blocks in the order of these numbers",
              group_.number, lines[1], lines[2], member, group_.count));
    }
    lines.erase(lines.begin(), lines.begin() + 3);
    blocks.push_back(std::move(lines));
  }
  return blocks;
}

/// The error of the first member that cannot start.
Status Exchange::find_failure(const Blocks& blocks) const {
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    const auto& lines = blocks[rank];
    if (lines[0] == kOk) continue;
    int code = 0;
    if (lines.size() == 3) std::from_chars(lines[1].data(), lines[1].data() + lines[1].size(), code);
    if (lines[0] != kError || code == 0)
      return {Code::internal, fmt::format("rank {} passed an invalid block to exchange", rank)};
    return {static_cast<Code>(code), fmt::format("rank {}: {}", rank, lines[2])};
  }
  return {};
}

Result<std::vector<Exchange::Hello>> Exchange::read_hellos(const Blocks& blocks) const {
  DABKE_RETURN_IF_ERROR(find_failure(blocks));
  std::vector<Hello> all_hellos;
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    const auto& lines = blocks[rank];
    if (lines.size() != 6)
      return Status(Code::internal, fmt::format("rank {} passed an invalid hello to exchange", rank));
    all_hellos.push_back({lines[1], {lines[2], lines[3]}, {lines[4], lines[5]}});
  }
  for (std::size_t rank = 1; rank < all_hellos.size(); ++rank) {
    if (all_hellos[rank].members.digest != all_hellos[0].members.digest) {
      return Status(
          Code::mismatch,
          fmt::format("rank 0 starts a job of processes {}, rank {} one of {}; all ranks of a job must "
                      "pass the same ranks in the same order",
                      all_hellos[0].members.shown, rank, all_hellos[rank].members.shown));
    }
    if (all_hellos[rank].process_sets.digest != all_hellos[0].process_sets.digest) {
      return process_sets_mismatch(all_hellos[0].process_sets.shown, static_cast<Rank>(rank),
                                   all_hellos[rank].process_sets.shown);
    }
  }
  return all_hellos;
}

/// The lines that this process sends once it has received the hellos of all.
Result<std::vector<std::string>> Exchange::note(const Result<std::vector<Hello>>& all_hellos) {
  if (!all_hellos.is_ok()) return all_hellos.status();
  if (rank_ != 0) return std::vector<std::string>{};
  std::vector<std::string> hosts;
  for (const Hello& one : *all_hellos) hosts.push_back(one.host);
  if (hosts.size() == 1 && group_.store == StoreUse::of_many_jobs) {
    DABKE_ASSIGN_OR_RETURN(const store::JobSecret secret, store::random_job_secret());
    return std::vector{std::string(), to_hex(secret.id), to_hex(secret.key), std::string("1")};
  }
  DABKE_ASSIGN_OR_RETURN(const ServedStore store, serve_store(config_, hosts, group_.store));
  DABKE_ASSIGN_OR_RETURN(const store::JobSecret secret, store::parse_job_secret(store.job_id, store.job_key));
  DABKE_ASSIGN_OR_RETURN(auto client, store::open_http_store(store.rendezvous, secret.id, secret.key,
                                                             deadline_after(config_.start_timeout)));
  const auto job = store::with_prefix(std::move(client), store.job_id);
  DABKE_ASSIGN_OR_RETURN(const std::uint64_t epoch, draw_epoch(*job));
  epoch_store_ = store::with_prefix(job, std::to_string(epoch));
  return std::vector{store.rendezvous, store.job_id, store.job_key, std::to_string(epoch)};
}

Result<ExchangeStart> Exchange::read_note(const Blocks& blocks, const std::vector<Hello>& all_hellos) const {
  DABKE_RETURN_IF_ERROR(find_failure(blocks));
  const auto& lines = blocks[0];
  ExchangeStart start{*rank_, {}, {}, 0};
  if (lines.size() == 5) {
    start.store = {lines[1], lines[2], lines[3]};
    std::from_chars(lines[4].data(), lines[4].data() + lines[4].size(), start.epoch);
  }
  if (start.epoch == 0) return Status(Code::internal, "rank 0 passed an invalid note to exchange");
  for (const Hello& one : all_hellos) start.hosts.push_back(one.host);
  return start;
}

Result<ExchangeStart> Exchange::start(const Result<std::string>& host) {
  const auto hellos = pass(kHello, hello(host));
  if (!hellos.is_ok() && group_.resumes) return hellos.status();
  const auto all_hellos = hellos.is_ok() ? read_hellos(*hellos) : Result<std::vector<Hello>>(hellos.status());
  const auto notes = pass(kNote, note(all_hellos));
  if (!host.is_ok()) return host.status();
  if (!hellos.is_ok()) return hellos.status();
  if (!rank_) return not_a_member();
  if (!all_hellos.is_ok()) return all_hellos.status();
  if (!notes.is_ok()) {
    // The others may already be opening links. They can still read this rank's error in the store.
    if (epoch_store_) store::report_init_failure(*epoch_store_, 0, notes.status());
    return notes.status();
  }
  return read_note(*notes, *all_hellos);
}

Status Exchange::fail(const Status& why) {
  (void)pass(kHello, why);
  (void)pass(kNote, why);
  return why;
}

}  // namespace

Result<ExchangeStart> start_by_exchange(const Config& config, const ExchangeGroup& group,
                                        const Result<std::string>& host) {
  return Exchange(config, group).start(host);
}

Status fail_by_exchange(const ExchangeGroup& group, const Status& why) {
  const Config config;
  return Exchange(config, group).fail(why);
}

}  // namespace dabke::bootstrap
