// The client of the rendezvous store that dabkerun serves (runtime/store/store_protocol.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// `url` is http://host:port, as in DABKE_RENDEZVOUS. Nothing is sent to it yet, so a wrong key shows at the
/// first call. If there are several addresses (store_address.h), the one that leads to the store is found by
/// the deadline.
///   errors  of open   invalid_argument: the URL; transport: no such host, or the store is at no address
///           of calls  transport: the launcher is gone or does not answer; timeout: nobody sets the key;
///                     invalid_argument: job or key are not those of the store
Result<std::shared_ptr<Store>> open_http_store(const std::string& url, const JobId& job, const JobKey& key,
                                               TimePoint deadline = kNever);

}  // namespace dabke::store
