#include "tests/fake_device/fake_device.h"

#include <sys/mman.h>

#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace dabke::test {
namespace {

constexpr std::size_t kPage = 4096;
std::size_t pages(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage; }

std::byte* map(std::size_t bytes, int protection) {
  void* const memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

FakeMemory::~FakeMemory() {
  for (const auto& [address, allocation] : allocations_) {
    munmap(const_cast<std::byte*>(address), pages(allocation.bytes));
    munmap(allocation.real, pages(allocation.bytes));
  }
}

void* FakeMemory::allocate(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (bytes > left_) return nullptr;
  std::byte* const address = map(pages(bytes), PROT_NONE);
  std::byte* const real = address == nullptr ? nullptr : map(pages(bytes), PROT_READ | PROT_WRITE);
  if (real == nullptr) return nullptr;
  left_ -= bytes;
  allocations_[address] = {real, bytes};
  return address;
}

void FakeMemory::free(void* memory) noexcept {
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<std::byte*>(memory));
  if (found == allocations_.end()) {
    std::fprintf(stderr, "fake device: free of memory that it does not have\n");
    std::abort();
  }
  left_ += found->second.bytes;
  munmap(memory, pages(found->second.bytes));
  munmap(found->second.real, pages(found->second.bytes));
  allocations_.erase(found);
}

std::byte* FakeMemory::real(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto found = allocations_.upper_bound(static_cast<const std::byte*>(memory));
  if (found == allocations_.begin()) return nullptr;
  --found;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(memory) - found->first);
  return offset + bytes <= found->second.bytes ? found->second.real + offset : nullptr;
}

void FakeMemory::limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  left_ = bytes;
}

std::shared_ptr<DeviceStream> FakeDevice::open_stream() {
  return std::make_shared<FakeStream>(shared_from_this());
}

void FakeDevice::write(void* device, const void* host, std::size_t bytes) {
  if (bytes != 0) std::memcpy(memory_->real(device, bytes), host, bytes);
}

void FakeDevice::read(void* host, const void* device, std::size_t bytes) {
  if (bytes != 0) std::memcpy(host, memory_->real(device, bytes), bytes);
}

void FakeDevice::fail_after(int operations) {
  const std::lock_guard lock(mutex_);
  operations_left_ = operations;
}

void FakeDevice::hang() {
  const std::lock_guard lock(mutex_);
  hangs_ = true;
}

void FakeDevice::wait_until_it_hangs() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stuck_ != 0; });
}

void FakeDevice::go_on() {
  {
    const std::lock_guard lock(mutex_);
    hangs_ = false;
  }
  changed_.notify_all();
}

Status FakeDevice::take_time() {
  std::unique_lock lock(mutex_);
  if (hangs_) {
    ++stuck_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
    --stuck_;
  }
  // Most operations take almost no time. A few take so long that others overtake them if nothing keeps the
  // order.
  if (random_() % 8 == 0)
    changed_.wait_for(lock, std::chrono::microseconds(random_() % 200), [] { return false; });
  if (each_ > Duration()) changed_.wait_for(lock, each_, [] { return false; });
  if (operations_left_ == 0)
    return {Code::transport, fmt::format("cuda:{} is lost: an injected error", index_)};
  if (operations_left_ > 0) --operations_left_;
  return {};
}

void FakeDevice::wait_until_it_has(int operations) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ >= operations; });
}

void FakeDevice::has_more(int operations) {
  {
    const std::lock_guard lock(mutex_);
    waiting_ += operations;
  }
  changed_.notify_all();
}

void FakeDevice::slow_down(Duration each) {
  const std::lock_guard lock(mutex_);
  each_ = each;
}

std::size_t FakeDevice::kept() {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

void FakeDevice::keep(std::shared_ptr<void> owner) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(owner));
}

Result<bool> FakeEvent::is_reached() {
  const std::lock_guard lock(mutex_);
  DABKE_RETURN_IF_ERROR(Status(status_));
  return reached_;
}

std::optional<TimePoint> FakeEvent::reached_at() {
  const std::lock_guard lock(mutex_);
  return reached_at_;
}

Status FakeEvent::hold_back(ProgramStream stream) {
  return static_cast<FakeStream*>(stream.handle)->wait_for(shared_from_this());
}

void FakeEvent::reach(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    reached_at_ = Clock::now();
    status_ = status;
  }
  changed_.notify_all();
}

Status FakeEvent::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
  return status_;
}

FakeStream::FakeStream(std::shared_ptr<FakeDevice> device)
    : device_(std::move(device)), memory_(device_->memory()), thread_([this] { loop(); }) {}

FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void FakeStream::enqueue(std::function<Status()> operation) {
  device_->has_more(1);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back([this, operation = std::move(operation)](Status& lost) {
      device_->has_more(-1);
      if (lost.is_ok()) lost = device_->take_time();
      if (lost.is_ok()) lost = operation();
    });
  }
  changed_.notify_one();
}

void FakeStream::loop() {
  std::fesetenv(FE_DFL_ENV);  // a device does not share the floating-point modes of the host's threads
  Status lost;                // why operations no longer run
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    operation(lost);
  }
}

Result<std::byte*> FakeStream::real(const void* memory, std::size_t bytes) {
  if (bytes == 0) return static_cast<std::byte*>(nullptr);
  std::byte* const found = device_->memory()->real(memory, bytes);
  if (found != nullptr) return found;
  return Status(Code::internal, fmt::format("cuda:{} was given {} bytes at {} that are not in its memory",
                                            device_->index(), bytes, fmt::ptr(memory)));
}

Status FakeStream::copy(std::span<const ElementCopy> pieces, DType to, DType from, const kernels::Scale& by) {
  enqueue([this, those = std::vector(pieces.begin(), pieces.end()), to, from, by]() -> Status {
    for (const ElementCopy& piece : those) {
      ElementCopy real_piece{nullptr, nullptr, piece.elements};
      DABKE_ASSIGN_OR_RETURN(real_piece.to, real(piece.to, piece.elements * size_of(to)));
      DABKE_ASSIGN_OR_RETURN(real_piece.from, real(piece.from, piece.elements * size_of(from)));
      DABKE_RETURN_IF_ERROR(host_stream().copy({&real_piece, 1}, to, from, by));
    }
    return {};
  });
  return {};
}

Status FakeStream::fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) {
  enqueue([=, this]() -> Status {
    DABKE_ASSIGN_OR_RETURN(std::byte* const there, real(into, elements * size_of(dtype)));
    return host_stream().fill_neutral(dtype, op, there, elements);
  });
  return {};
}

Status FakeStream::clear(void* memory, std::size_t bytes) {
  enqueue([=, this]() -> Status {
    DABKE_ASSIGN_OR_RETURN(std::byte* const there, real(memory, bytes));
    return host_stream().clear(there, bytes);
  });
  return {};
}

Status FakeStream::copy_to_host(void* host, const void* device, std::size_t bytes) {
  enqueue([=, this]() -> Status {
    DABKE_ASSIGN_OR_RETURN(const std::byte* const there, real(device, bytes));
    return host_stream().copy_to_host(host, there, bytes);
  });
  return {};
}

Status FakeStream::copy_from_host(void* device, const void* host, std::size_t bytes) {
  enqueue([=, this]() -> Status {
    DABKE_ASSIGN_OR_RETURN(std::byte* const there, real(device, bytes));
    return host_stream().copy_from_host(there, host, bytes);
  });
  return {};
}

Result<std::shared_ptr<DeviceEvent>> FakeStream::record() {
  auto event = std::make_shared<FakeEvent>();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back([this, event](Status& lost) {
      if (lost.is_ok()) lost = device_->take_time();
      event->reach(lost);
    });
  }
  changed_.notify_one();
  return std::shared_ptr<DeviceEvent>(event);
}

Status FakeStream::wait_for(const std::shared_ptr<DeviceEvent>& event) {
  enqueue([event = std::static_pointer_cast<FakeEvent>(event)] { return event->wait(); });
  return {};
}

Result<std::shared_ptr<DeviceEvent>> FakeStream::point_behind(ProgramStream stream) {
  return static_cast<FakeStream*>(stream.handle)->record();
}

Result<std::shared_ptr<DeviceEvent>> FakeStream::point_of(ProgramEvent event) {
  auto* const own = static_cast<FakeEvent*>(event.handle);
  DABKE_ASSIGN_OR_RETURN(const bool is_reached, own->is_reached());
  return is_reached ? std::shared_ptr<DeviceEvent>() : std::shared_ptr<DeviceEvent>(own->shared_from_this());
}

void FakeStream::retire(DeviceBuffer buffer) {
  const std::lock_guard lock(mutex_);
  queue_.push_back([shared = std::shared_ptr<void>(std::move(buffer))](Status&) {});
}

}  // namespace dabke::test
