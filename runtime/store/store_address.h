// Where a rendezvous store is: one address, or those of a host of which it is not known yet which others reach.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/links/network.h"
#include "runtime/store/store_request.h"

namespace dabke::store {

struct StoreAddress {
  std::string authority;  // "host:port", as a request names it
  links::SocketAddress at;
};

/// `url` is http://host:port, or has more of those after it, with commas between: http://10.0.0.1:4711,172.17.0.1:4712.
///   errors  invalid_argument (the URL), transport (a host is not found)
Result<std::vector<StoreAddress>> store_addresses(const std::string& url);

/// That at which the store answers from here. All are tried at once; the likeliest is to come first. Somebody else who is
/// there does not count: an answer must prove that the job's key is known, and the key is of one job and its store alone.
///   errors  transport: none, with what was wrong with each
Result<StoreAddress> find_store(const std::vector<StoreAddress>& addresses, const StoreSecret& secret,
                                TimePoint deadline);

}  // namespace dabke::store
