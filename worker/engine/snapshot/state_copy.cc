#include "worker/engine/snapshot/state_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parallel_for.h"
#include "common/plan/snapshot_map.h"
#include "kernels/device.h"
#include "kernels/pinned_memory.h"

namespace coxswain::engine {
namespace {

constexpr int64_t kSliceBytes = int64_t{32} << 20;
static_assert(PinnedPieces::kPieceBytes % kSliceBytes == 0, "a copy spans no two registrations");

// A slice is carried on by so many threads.
constexpr int64_t kCarriers = 4;

void CopyOnHost(char* to, const char* from, int64_t bytes, int threads) {
  const int64_t part = (bytes + threads - 1) / threads;
  (void)ParallelFor(threads, threads, [&](int64_t i) {
    const int64_t begin = std::min(i * part, bytes);
    std::memcpy(to + begin, from + begin, static_cast<size_t>(std::min(part, bytes - begin)));
    return absl::OkStatus();
  });
}

}  // namespace

// In the order of SnapshotMap, none across a multiple of kSliceBytes of the snapshot.
std::vector<StateCopy::Piece> StateCopy::Pieces(const ParameterLayout& layout,
                                                const Buffers& buffers) {
  std::vector<Piece> pieces;
  int64_t at = 0;
  const auto append = [&](const void* data, int64_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const int64_t count = std::min(bytes, kSliceBytes - at % kSliceBytes);
      pieces.push_back({buffers.snapshot + at, from, count});
      at += count;
      from += count;
      bytes -= count;
    }
  };
  for (size_t s = 0; s < buffers.states.size(); ++s) {
    append(buffers.states[s], layout.map.states[s]);
  }
  for (size_t f = 0; f < layout.map.flats.size(); ++f) {
    const plan::Flat& flat = layout.map.flats[f];
    if (!flat.trained()) continue;
    const FlatMemory& memory = buffers.flats[f];
    append(memory.master != nullptr ? memory.master : memory.owned,
           plan::StorageBytes(flat.storage.trained_values(), flat.owned));
  }
  append(buffers.router_corrections, layout.map.corrections);
  append(buffers.fp8_history, layout.map.fp8_history);
  return pieces;
}

StateCopy::StateCopy(const plan::Plan& plan)
    : on_cpu_(plan.device == DeviceKind::kCpu), in_slices_(plan.snapshot_in_slices) {}

StateCopy::~StateCopy() {
  if (const std::shared_future<void> last = carried(); last.valid()) last.wait();
  kernels::FinishStream(side_.get());
}

std::shared_future<void> StateCopy::carried() const {
  MutexLock lock(mu_);
  return carried_;
}

void StateCopy::PinBeside(const ParameterLayout& layout, std::shared_ptr<char> snapshot) {
  if (on_cpu_ || in_slices_) return;
  pinned_.Start(std::move(snapshot), plan::SnapshotMap(layout.map).bytes);
}

absl::Status StateCopy::Take(const ParameterLayout& layout, const SnapshotCounters& counters,
                             const Buffers& buffers, kernels::Stream* stream) {
  if (const std::shared_future<void> last = carried(); last.valid()) last.get();
  MutexLock lock(mu_);
  if (reading_) {
    return absl::FailedPreconditionError(absl::StrCat("snapshot of step ", counters.finished_steps,
                                                      ": that of step ", counters_.finished_steps,
                                                      " is still being written"));
  }
  counters_ = counters;
  carried_ = {};
  std::vector<Piece> pieces = Pieces(layout, buffers);
  if (on_cpu_) {
    for (const Piece& piece : pieces) {
      CopyOnHost(piece.to, piece.from, piece.bytes, kernels::NumThreads());
    }
    return absl::OkStatus();
  }
  ready_.Record(stream);
  kernels::WaitEvent(ready_.get(), side_.get());
  const char* const pinned_end = buffers.snapshot + pinned_.pinned();
  const bool all_pinned = pieces.empty() || pieces.back().to + pieces.back().bytes <= pinned_end;
  if (!all_pinned && slices_ == nullptr) {
    slices_ = std::make_unique<PinnedArray<char>>(2 * kSliceBytes);
  }
  carried_ = std::async(std::launch::async, [this, pieces = std::move(pieces), pinned_end] {
               Carry(pieces, pinned_end);
             }).share();
  overwrite_waits_ = true;
  return absl::OkStatus();
}

// One piece is under way while the one before is waited for, and carried on from its slice.
void StateCopy::Carry(const std::vector<Piece>& pieces, const char* pinned_end) {
  const std::array<EventHandle, 2> copied{};
  const auto pinned = [&](const Piece& piece) { return piece.to + piece.bytes <= pinned_end; };
  const auto slice = [this](size_t i) {
    return slices_->data() + static_cast<int64_t>(i % 2) * kSliceBytes;
  };
  for (size_t i = 0; i <= pieces.size(); ++i) {
    if (i < pieces.size()) {
      char* const to = pinned(pieces[i]) ? pieces[i].to : slice(i);
      kernels::CopyMemory(to, pieces[i].from, pieces[i].bytes, side_.get());
      copied[i % 2].Record(side_.get());
    }
    if (i == 0) continue;
    const Piece& last = pieces[i - 1];
    copied[(i - 1) % 2].Wait();
    if (!pinned(last)) CopyOnHost(last.to, slice(i - 1), last.bytes, kCarriers);
  }
  copied_.Record(side_.get());
}

void StateCopy::AwaitCopied(kernels::Stream* stream) {
  if (!std::exchange(overwrite_waits_, false)) return;
  if (const std::shared_future<void> last = carried(); last.valid()) last.get();
  kernels::WaitEvent(copied_.get(), stream);
}

// Ends a read, whatever it throws.
class StateCopy::Reading {
 public:
  explicit Reading(StateCopy* copy) : copy_(copy) {}
  ~Reading() {
    MutexLock lock(copy_->mu_);
    copy_->reading_ = false;
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  StateCopy* const copy_;
};

absl::Status StateCopy::Read(int64_t finished_steps,
                             const std::function<absl::Status(const SnapshotCounters&)>& read) {
  SnapshotCounters counters;
  std::shared_future<void> carried;
  {
    MutexLock lock(mu_);
    if (finished_steps < 0 || finished_steps != counters_.finished_steps || reading_) {
      return absl::FailedPreconditionError(
          absl::StrCat("the newest snapshot is of step ", counters_.finished_steps,
                       reading_ ? " and is being written" : "", ", asked for ", finished_steps));
    }
    reading_ = true;
    counters = counters_;
    carried = carried_;
  }
  const Reading reading(this);
  if (carried.valid()) carried.get();
  copied_.Wait();
  return read(counters);
}

}  // namespace coxswain::engine
