// What a request is known by within its process set, in every rank's tables and in the messages.
//
// A tensor, and a group that is submitted in one call, are known by the tensor's name. Everything else has a
// name space of its own, so that no choice of tensor names can collide with it: a barrier and a tensor named
// "barrier" may be in flight at the same time, and so may a group and a tensor of one name. Such a key is
// text, then a NUL, which the name of a tensor cannot hold (it comes as a C string), then the name space.
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

/// The ranks that alone are waited for, where the key is of such a request, which is known by their list; else
/// nothing.
std::optional<std::vector<Rank>> members_named(std::string_view key);

/// How messages call what has this key: "'x'", "group 'g'", "barrier".
std::string shown(std::string_view key);

/// A request's key, for as long as the request lives. A tensor's needs no memory.
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
