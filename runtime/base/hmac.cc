#include "runtime/base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <charconv>

#include <fmt/format.h>

namespace dabke {
namespace {

/// Keeps exit() from freeing OpenSSL's state, because another thread may call exit() while this one computes
/// a digest. OpenSSL reads this option only at its first use in the process. OpenSSL's memory ends with
/// the process.
void keep_openssl() {
  static const bool once = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
  (void)once;
}

}  // namespace

Result<Digest> hmac_sha256(const JobKey& key, std::span<const std::byte> message) {
  keep_openssl();
  Digest digest{};
  unsigned int length = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &length);
  if (made != nullptr && length == digest.size()) return digest;
  const unsigned long error = ERR_get_error();
  const char* const reason = error != 0 ? ERR_reason_error_string(error) : nullptr;
  return Status(Code::internal,
                fmt::format("OpenSSL cannot compute HMAC-SHA256 ({}), so the ranks cannot authenticate; "
                            "check that its configuration (openssl.cnf, OPENSSL_CONF) allows SHA-256",
                            reason != nullptr ? reason : "no reason given"));
}

bool digests_equal(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("getrandom", errno);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}

Status from_hex(std::string_view hex, std::span<std::byte> out) {
  if (hex.size() != 2 * out.size()) {
    return {Code::invalid_argument,
            fmt::format("expected {} hexadecimal digits, got {}", 2 * out.size(), hex.size())};
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    unsigned value = 0;
    const char* first = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc() || end != first + 2) {
      return {Code::invalid_argument, fmt::format("'{}' is not a hexadecimal number", hex)};
    }
    out[i] = static_cast<std::byte>(value);
  }
  return {};
}

}  // namespace dabke
