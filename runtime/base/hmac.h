// Proof that a process has the job's key.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke {

using Digest = std::array<std::byte, 32>;

/// HMAC-SHA256 (RFC 2104) of `message` under the job's key. Fails if OpenSSL refuses, as its configuration
/// can make it do: without a digest there is no proof.
Result<Digest> hmac_sha256(const JobKey& key, std::span<const std::byte> message);
/// Compares in constant time.
bool digests_equal(const Digest& a, const Digest& b);
/// Fills `out` from the operating system's random source.
Status random_bytes(std::span<std::byte> out);

std::string to_hex(std::span<const std::byte> bytes);
/// Writes the bytes of `hex` into `out`. Fails unless it has exactly 2*out.size() hexadecimal digits.
Status from_hex(std::string_view hex, std::span<std::byte> out);

}  // namespace dabke
