// The names that records refer to by number, in one table for each kind of name.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/timeline/interned_names.h"

namespace dabke::timeline {

// clang-format off
//   id       value  most       name of all beyond these; below it: the meaning of the kind
#define DABKE_NAME_KINDS(X)                                                                                 \
  X(tensor,   1,     262'144,   "(all further tensors)",                                                    \
      "a tensor; `name` of records about one tensor")                                                       \
  X(span,     2,     65'536,    "(all further spans)",                                                      \
      "a span of the application; `name` of `span`")                                                        \
  X(thread,   3,     65'536,    "(all further threads)",                                                    \
      "a thread, with its number in the system; `thread`")                                                  \
  X(text,     4,     4'096,     "(all further)",                                                            \
      "a backend, an algorithm, or the name of a `run`")                                                    \
  X(shape,    5,     65'536,    "\xff\xff\xff\xff\xff\xff\xff\xff",                                         \
      "a shape: its dimensions, 8 bytes each, -1 if unknown; `number` of `done`")                           \
  X(error,    6,     4'096,     "(all further errors)",                                                     \
      "the text of an error; `number` of `error`")
// clang-format on

enum class NameKind : std::uint8_t {
#define X(id, value, ...) id = value,
  DABKE_NAME_KINDS(X)
#undef X
};
inline constexpr std::size_t kNameKinds = 0
#define X(...) +1
    DABKE_NAME_KINDS(X)
#undef X
    ;
constexpr std::size_t index_of(NameKind kind) { return static_cast<std::size_t>(kind) - 1; }
inline constexpr auto kAllNameKinds = std::to_array<NameKind>({
#define X(id, ...) NameKind::id,
    DABKE_NAME_KINDS(X)
#undef X
});
constexpr std::size_t most_of(NameKind kind) {
  switch (kind) {
#define X(id, value, most, ...) \
  case NameKind::id: return most;
    DABKE_NAME_KINDS(X)
#undef X
  }
  return 0;
}

/// The last number of each kind that a thread was given.
using LastNames = std::array<std::uint32_t, kNameKinds>;

/// A shape in the form in which it is interned: the bytes of its dimensions.
inline std::string_view bytes_of(const Shape& shape) {
  return {reinterpret_cast<const char*>(shape.dims().data()), shape.dims().size() * sizeof(std::int64_t)};
}
inline Shape shape_of(std::string_view bytes) {
  std::vector<std::int64_t> dims(bytes.size() / sizeof(std::int64_t));
  std::copy_n(bytes.data(), dims.size() * sizeof(std::int64_t), reinterpret_cast<char*>(dims.data()));
  return Shape(dims);
}

/// Any thread may use it.
class NameTable {
 public:
  std::uint32_t number_of(NameKind kind, std::string_view name, LastNames& last) {
    return tables_[index_of(kind)].number_of(name, last[index_of(kind)]);
  }
  /// Returns the number of a tensor's shape. The search begins at the tensor's last shape, which is usually
  /// the same.
  std::uint32_t number_of(const Shape& shape, std::uint32_t tensor) {
    std::uint32_t last = shapes_[tensor].load(std::memory_order_relaxed);
    const std::uint32_t number = tables_[index_of(NameKind::shape)].number_of(bytes_of(shape), last);
    shapes_[tensor].store(number, std::memory_order_relaxed);
    return number;
  }
  std::size_t count(NameKind kind) const { return tables_[index_of(kind)].count(); }
  /// The number of characters of all names of all kinds together.
  std::uint64_t bytes() const {
    std::uint64_t all = 0;
    for (const InternedNames& table : tables_) all += table.bytes();
    return all;
  }
  std::string_view name(NameKind kind, std::uint32_t number) const {
    return tables_[index_of(kind)].name(number);
  }

 private:
  std::array<InternedNames, kNameKinds> tables_ = {
#define X(id, value, most, further, meaning) InternedNames(most, further),
      DABKE_NAME_KINDS(X)
#undef X
  };
  // The number of each tensor's last shape, by the tensor's number. All tensors beyond the limit share one
  // entry.
  const std::unique_ptr<std::atomic<std::uint32_t>[]> shapes_ =
      std::make_unique<std::atomic<std::uint32_t>[]>(most_of(NameKind::tensor) + 2);
};

}  // namespace dabke::timeline
