#include "runtime/call/call_spec.h"

#include <fmt/format.h>

namespace dabke {
namespace {

template <class T>
auto word_for(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return name_of(value);
  } else {
    return value;
  }
}

}  // namespace

std::string_view difference(const CallSpec& a, const CallSpec& b) {
  std::string_view found;
  for_each_call_field([&](const auto& field) {
    if (found.empty() && !field.is_each_tensors && !agree(a, b, field)) found = field.name;
  });
  return found;
}

std::string describe(const CallSpec& call, FieldText::Where where) {
  constexpr CallSpec kDefaults;
  std::string out;
  for_each_call_field([&](const auto& field) {
    const auto& value = call.*field.value;
    if (field.text.where != where || !field.counts(call.kind)) return;
    if (field.name == "root rank" && call.root == kAnyRank) {
      out += " from any rank";
      return;
    }
    if (where == FieldText::Where::after_tensors && is_same_value(value, kDefaults.*field.value)) return;
    out += fmt::format(fmt::runtime(field.text.text), word_for(value));
  });
  return out;
}

}  // namespace dabke
