// The memory of one engine: every buffer of the plan, allocated once. Views into it stay valid as
// long as the arena lives.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_ARENA_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_ARENA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/comm/collectives.h"

namespace coxswain::engine {

class Arena {
 public:
  // Allocates and zeroes each buffer, 64-byte aligned; host buffers are page-aligned. `buffers`
  // must have passed plan::CheckPlan. Throws std::bad_alloc; `*current` then names the buffer that
  // failed and its bytes.
  static Arena Allocate(const std::vector<plan::Buffer>& buffers, std::string* current);

  // The memory of buffer `need.name`, at least need.bytes long; marks it used. InvalidArgument
  // names the buffer with both values when it is absent, has another class, shares other memory
  // than `need.alias_of`, or is smaller than needed.
  absl::StatusOr<void*> Bind(const plan::Buffer& need);

  // Shares the memory of buffer `name` of class kHost, which may then outlive the arena. Null for
  // other buffers and for aliases.
  std::shared_ptr<char> HoldHost(const std::string& name) const;

  // Frees the memory beyond `bytes` of a device buffer that is not bound and that no other buffer
  // shares.
  void Shrink(const std::string& name, int64_t bytes);

  // InvalidArgument names a buffer that was not bound: the table belongs to another engine.
  absl::Status CheckAllBound() const;

  // The buffers on the device in plan order, which is the same on every rank.
  std::vector<comm::DeviceRegion> device_regions() const;

  uint64_t bytes(plan::MemoryClass memory_class) const;
  uint64_t total_bytes() const;

 private:
  struct FreeDevice {
    void operator()(void* memory) const;
  };
  void* Own(const plan::Buffer& buffer);

  struct Slot {
    plan::Buffer buffer;
    void* memory = nullptr;
    int64_t bytes = 0;
    bool bound = false;
  };

  std::vector<std::unique_ptr<void, FreeDevice>> device_;
  std::vector<int64_t> device_bytes_;  // bytes of each
  std::vector<std::shared_ptr<char>> host_;
  std::map<std::string, Slot> slots_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_ARENA_H_
