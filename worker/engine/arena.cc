#include "worker/engine/arena.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/device.h"

namespace coxswain::engine {
namespace {

absl::Status CheckBuffer(const plan::Buffer& buffer) {
  if (buffer.alias_of.empty()) {
    if (buffer.bytes > 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("plan: buffer \"", buffer.name, "\" has ",
                                                   buffer.bytes,
                                                   " bytes; a buffer without alias needs > 0"));
  }
  if (buffer.bytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan: buffer \"", buffer.name, "\" aliases \"",
                                                 buffer.alias_of, "\" and has ", buffer.bytes,
                                                 " bytes of its own; an alias has 0"));
}

}  // namespace

void Arena::Free::operator()(void* memory) const { kernels::FreeMemory(memory); }

absl::StatusOr<Arena> Arena::Allocate(const std::vector<plan::Buffer>& buffers,
                                      std::string* current) {
  Arena arena;
  for (const plan::Buffer& buffer : buffers) {
    if (absl::Status status = CheckBuffer(buffer); !status.ok()) return status;
    Slot slot{buffer, nullptr, buffer.bytes, false};
    if (buffer.alias_of.empty()) {
      *current = absl::StrCat("buffer \"", buffer.name, "\" of ", buffer.bytes, " bytes, after ",
                              arena.total_bytes(), " bytes of other buffers");
      arena.owned_.emplace_back(kernels::AllocateMemory(buffer.bytes));
      slot.memory = arena.owned_.back().get();
      kernels::SetMemory(slot.memory, 0, buffer.bytes, nullptr);
    }
    if (!arena.slots_.emplace(buffer.name, std::move(slot)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: buffer \"", buffer.name, "\" is listed twice"));
    }
  }
  for (auto& [name, slot] : arena.slots_) {
    if (slot.buffer.alias_of.empty()) continue;
    auto owner = arena.slots_.find(slot.buffer.alias_of);
    if (owner == arena.slots_.end() || !owner->second.buffer.alias_of.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("plan: buffer \"", name, "\" aliases \"",
                                                     slot.buffer.alias_of,
                                                     "\", which owns no memory"));
    }
    slot.memory = owner->second.memory;
    slot.bytes = owner->second.bytes;
  }
  return arena;
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
