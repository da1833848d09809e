#include "bindings/python/jax/instances.h"

#include <mutex>
#include <unordered_map>

namespace dabke::python::jax {
namespace {

/// The last use of a name.
struct Use {
  std::int64_t run_id;
  const void* place;  // of a call's attributes, which each place of a program has for itself
};

/// The uses of all names of this process.
struct Uses {
  std::mutex mutex;
  std::unordered_map<std::string, Use> by_name;
};

Uses& uses() {
  static auto* const all = new Uses;  // never destroyed: XLA's threads may outlive static objects
  return *all;
}

}  // namespace

std::string other_instance(const xla::CallFrame& frame, const char* name) {
  if (!xla::has_member(*frame.api, offsetof(xla::Api, run_id_get))) return {};
  auto arguments = xla::make_arguments<xla::RunIdArguments>();
  arguments.execution = frame.execution;
  if (xla::Error* const error = frame.api->run_id_get(&arguments)) {
    auto destroyed = xla::make_arguments<xla::ErrorDestroyArguments>();
    destroyed.error = error;
    frame.api->error_destroy(&destroyed);
    return {};
  }
  const void* const place = frame.attributes.size ? frame.attributes.values[0] : nullptr;
  const Use now{arguments.run_id, place};

  Uses& all = uses();
  const std::lock_guard lock(all.mutex);
  const auto [entry, is_new] = all.by_name.try_emplace(name, now);
  const Use before = entry->second;
  entry->second = now;
  if (is_new || before.run_id != now.run_id || before.place == now.place) return {};
  return std::string("'") + name +
         "' is the name of two calls in one program, which XLA may run in either order; give them different "
         "names";
}

}  // namespace dabke::python::jax
