// The file store with arbitrary keys and file contents. A value that was set can be read, counters count, and
// no key reaches outside of the store's directory.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/store/store.h"
#include "tests/fuzz/check.h"
#include "tests/temporary_directory.h"

namespace {

namespace fs = std::filesystem;

/// One store for all runs.
class Place {
 public:
  Place() { fs::create_directory(store()); }
  std::string store() const { return directory_ / "store"; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()));
  }

 private:
  dabke::test::TemporaryDirectory directory_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Place place;
  const auto store = dabke::store::open_file_store(place.store()).take();
  dabke::test::Input input(data, size);
  std::map<std::string, std::string> values;
  while (!input.is_empty()) {
    const std::size_t what = input.below(4);
    const std::string key(input.piece());
    if (what == 0) {
      const std::string value(input.piece());
      if (store->set(key, value).is_ok()) values[key] = value;
    } else if (what == 1) {
      const auto value = store->get(key, dabke::Clock::now());
      const auto known = values.find(key);
      FUZZ_CHECK(known == values.end() || (value.is_ok() && *value == known->second));
    } else if (what == 2) {
      if (const auto count = store->increment(key); count.is_ok()) values[key] = std::to_string(*count);
    } else {  // a foreign file has the name of a key's value
      const std::string name = "foreign" + std::to_string(input.below(4));
      std::ofstream(place.store() + "/" + name + ".value") << key;
      values[name] = key;
    }
  }
  FUZZ_CHECK(store->remove_all("").is_ok());
  FUZZ_CHECK(fs::is_empty(place.store()) ||
             std::distance(fs::directory_iterator(place.store()), {}) == 1);  // one file: the lock
  FUZZ_CHECK(place.entries() == 1);
  return 0;
}
