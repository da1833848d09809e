#include "runtime/negotiation/tables/tensor_entry.h"

namespace dabke::negotiation {

void ReporterSet::insert_high(int reporter) {
  const auto at = static_cast<std::size_t>(reporter - 64);
  if (!high_) high_ = std::make_unique<std::vector<bool>>();
  if (at >= high_->size()) high_->resize(at + 1);
  (*high_)[at] = true;
}

bool ReporterSet::high(int reporter) const {
  const auto at = static_cast<std::size_t>(reporter - 64);
  return high_ && at < high_->size() && (*high_)[at];
}

void Submissions::queue(Submitted submitted) {
  if (!later_) later_ = std::make_unique<std::deque<Submitted>>();
  later_->push_back(std::move(submitted));
}

void Submissions::fill_front(TimePoint now) {
  front_ = std::move(later_->front());
  front_.since = now;
  later_->pop_front();
  if (later_->empty()) later_.reset();
}

}  // namespace dabke::negotiation
