#include "runtime/bootstrap/elastic/arrival.h"

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/words.h"

namespace dabke::bootstrap {
namespace {

constexpr std::string_view kArrivals = "elastic/arrival/";

}  // namespace

std::string arrival_key(WorkerId worker) { return fmt::format("{}{}", kArrivals, worker); }

std::optional<WorkerId> arriving_worker(std::string_view key) {
  if (!key.starts_with(kArrivals)) return std::nullopt;
  return number_of<WorkerId>(key.substr(kArrivals.size()));
}

std::string to_text(const Arrival& arrival) {
  return fmt::format("{} {} {} {} {} {} {}\n{}\n", arrival.worker, arrival.visit, arrival.epoch,
                     optional_word(arrival.commit), arrival.repeated_steps, links::to_text(arrival.process),
                     one_line(arrival.host), one_line(arrival.process_sets));
}

std::optional<Arrival> read_arrival(std::string_view text) {
  Words line(take_line(text));
  Arrival arrival;
  line.number(arrival.worker);
  line.number(arrival.visit);
  line.number(arrival.epoch);
  line.optional_number(arrival.commit);
  line.number(arrival.repeated_steps);
  arrival.process = links::parse_process(line.word());
  arrival.host = line.rest();
  arrival.process_sets = take_line(text);
  return line.are_well_formed() && !arrival.host.empty() ? std::optional(arrival) : std::nullopt;
}

std::string answer_key(WorkerId worker, std::uint64_t visit) {
  return fmt::format("elastic/answer/{}/{}", worker, visit);
}

std::string end_key(WorkerId worker) { return fmt::format("elastic/end/{}", worker); }

}  // namespace dabke::bootstrap
