// The client of the rendezvous store that dabkerun serves (runtime/store/store_protocol.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// `url` is http://host:port, as in DABKE_RENDEZVOUS, and nothing is sent yet, so a wrong key shows at the first call. Of
/// several addresses (store_address.h) it becomes known by the deadline which leads there.
///   errors  of open: invalid_argument (the URL), transport (the host is not found, or the store at no address)
///           of the calls: transport when the launcher is gone or does not answer, invalid_argument when job
///           or key are not those of the store, timeout when nobody sets the key
Result<std::shared_ptr<Store>> open_http_store(const std::string& url, const JobId& job, const JobKey& key,
                                               TimePoint deadline = kNever);

}  // namespace dabke::store
