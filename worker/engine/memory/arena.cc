#include "worker/engine/memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/device.h"

namespace coxswain::engine {
void Arena::FreeDevice::operator()(void* memory) const { kernels::FreeMemory(memory); }

void* Arena::Own(const plan::Buffer& buffer) {
  if (buffer.memory_class == plan::MemoryClass::kHost) {
    // Pages become real when they are written first; large ones are locked and copied faster.
    const auto bytes = static_cast<size_t>(buffer.bytes);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    host_.emplace_back(static_cast<char*>(memory), [bytes](char* data) { ::munmap(data, bytes); });
    (void)::madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
  }
  device_.emplace_back(kernels::AllocateMemory(buffer.bytes));
  device_bytes_.push_back(buffer.bytes);
  kernels::SetMemory(device_.back().get(), 0, buffer.bytes, nullptr);
  return device_.back().get();
}

Arena Arena::Allocate(const std::vector<plan::Buffer>& buffers, std::string* current) {
  Arena arena;
  for (const plan::Buffer& buffer : buffers) {
    Slot slot{buffer, nullptr, buffer.bytes, false};
    if (buffer.alias_of.empty()) {
      *current = absl::StrCat("buffer \"", buffer.name, "\" of ", buffer.bytes, " bytes, after ",
                              arena.total_bytes(), " bytes of other buffers");
      slot.memory = arena.Own(buffer);
    }
    arena.slots_.emplace(buffer.name, std::move(slot));
  }
  for (auto& [name, slot] : arena.slots_) {
    if (slot.buffer.alias_of.empty()) continue;
    const Slot& owner = arena.slots_.at(slot.buffer.alias_of);
    slot.memory = owner.memory;
    slot.bytes = owner.bytes;
  }
  return arena;
}

std::vector<comm::DeviceRegion> Arena::device_regions() const {
  std::vector<comm::DeviceRegion> regions;
  for (size_t i = 0; i < device_.size(); ++i) {
    regions.push_back({device_[i].get(), device_bytes_[i]});
  }
  return regions;
}

absl::StatusOr<void*> Arena::Bind(const plan::Buffer& need) {
  auto found = slots_.find(need.name);
  if (found == slots_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("plan: buffer \"", need.name, "\" of ",
                                                   need.bytes,
                                                   " bytes is missing from the buffer table"));
  }
  Slot& slot = found->second;
  if (slot.buffer.memory_class != need.memory_class) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: buffer \"", need.name, "\" has memory class ",
                     static_cast<uint32_t>(slot.buffer.memory_class), ", the engine expects ",
                     static_cast<uint32_t>(need.memory_class)));
  }
  if (slot.buffer.alias_of != need.alias_of) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: buffer \"", need.name, "\" aliases \"", slot.buffer.alias_of,
                     "\", the engine expects \"", need.alias_of, "\""));
  }
  if (slot.bytes < need.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("plan: buffer \"", need.name, "\" needs ",
                                                   need.bytes, " bytes, the plan gives ",
                                                   slot.bytes));
  }
  slot.bound = true;
  return slot.memory;
}

std::shared_ptr<char> Arena::HoldHost(const std::string& name) const {
  const auto found = slots_.find(name);
  for (const std::shared_ptr<char>& memory : host_) {
    if (found != slots_.end() && memory.get() == found->second.memory) return memory;
  }
  return nullptr;
}

// The larger one goes first: both need not fit.
void Arena::Shrink(const std::string& name, int64_t bytes) {
  const auto found = slots_.find(name);
  if (found == slots_.end() || found->second.bytes <= bytes) return;
  Slot& slot = found->second;
  const auto owner = std::find_if(device_.begin(), device_.end(),
                                  [&](const auto& memory) { return memory.get() == slot.memory; });
  if (owner == device_.end()) return;
  owner->reset();
  owner->reset(kernels::AllocateMemory(bytes));
  kernels::SetMemory(owner->get(), 0, bytes, nullptr);
  device_bytes_[static_cast<size_t>(owner - device_.begin())] = bytes;
  slot.memory = owner->get();
  slot.bytes = bytes;
}

absl::Status Arena::CheckAllBound() const {
  for (const auto& [name, slot] : slots_) {
    if (slot.bound) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("plan: this engine has no use for buffer \"", name, "\" of ", slot.bytes,
                     " bytes; the plan was made for another build or other settings"));
  }
  return absl::OkStatus();
}

uint64_t Arena::bytes(plan::MemoryClass memory_class) const {
  uint64_t sum = 0;
  for (const auto& [name, slot] : slots_) {
    if (slot.buffer.alias_of.empty() && slot.buffer.memory_class == memory_class) {
      sum += static_cast<uint64_t>(slot.bytes);
    }
  }
  return sum;
}

uint64_t Arena::total_bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, slot] : slots_) {
    if (slot.buffer.alias_of.empty()) sum += static_cast<uint64_t>(slot.bytes);
  }
  return sum;
}

}  // namespace coxswain::engine
