// The address of a rendezvous store: one, or several of one host if it is unknown which of them others reach.
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

/// `url` is http://host:port, or has more addresses after it, with commas between:
/// http://10.0.0.1:4711,172.17.0.1:4712.
///   errors  invalid_argument (the URL), transport (a host is not found)
Result<std::vector<StoreAddress>> store_addresses(const std::string& url);

/// The address at which the store answers from here. All are tried at once; the likeliest must come first. An
/// answer must prove that the server has the job's key, which only the job's own store has. So another server
/// at one of these addresses does not count.
///   errors  transport: the store is at no address, with the error of each
Result<StoreAddress> find_store(const std::vector<StoreAddress>& addresses, const StoreSecret& secret,
                                TimePoint deadline);

}  // namespace dabke::store
