// The key that identifies a request within its process set, in every rank's tables and in the messages.
//
// The key of a tensor, and of a group that is submitted in one call, is the tensor's name. Everything else
// has a name space of its own, so that no tensor name can collide with it. A barrier and a tensor named
// "barrier" may be in flight at the same time, and so may a group and a tensor of one name. Such a key is
// text, then a NUL, then the name space. The name of a tensor cannot contain a NUL, because it comes as a C
// string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/call/request.h"

namespace dabke::negotiation {

/// The key of a group whose members are submitted one by one.
std::string group_key(const std::string& group);
bool is_group_key(std::string_view key);

/// Returns the only ranks that are awaited, if the key is of a request that is identified by their list.
/// Returns nothing for other keys.
std::optional<std::vector<Rank>> members_named(std::string_view key);

/// Returns how messages call the request with this key: "'x'", "group 'g'", "barrier".
std::string shown(std::string_view key);

/// A request's key, valid as long as the request. A tensor's key needs no memory.
class NameKey {
 public:
  explicit NameKey(const Request& request) : name_(&request.name) {
    if (request.is_group || !moves_data(request.kind)) made_ = made_of(request);
  }
  NameKey(const NameKey&) = delete;
  NameKey& operator=(const NameKey&) = delete;
  operator const std::string&() const { return made_.empty() ? *name_ : made_; }

 private:
  static std::string made_of(const Request& request);

  const std::string* name_;
  std::string made_;
};

}  // namespace dabke::negotiation
