#include "worker/engine/memory/ordered_reads.h"

#include <algorithm>
#include <thread>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "worker/engine/commands/work_count.h"
#include "worker/engine/device/device_handles.h"

namespace coxswain::engine {
namespace {

int64_t LargestOf(const std::vector<OrderedRead>& reads) {
  int64_t bytes = 0;
  for (const OrderedRead& read : reads) bytes = std::max(bytes, read.bytes);
  return bytes;
}

// Read i lies in slot i mod slots, from its reading to its use.
class Slots {
 public:
  Slots(const std::vector<OrderedRead>& reads, int64_t slots)
      : reads_(reads),
        slots_(slots),
        bytes_(LargestOf(reads)),
        memory_(std::max<int64_t>(1, slots * bytes_)),
        is_read_(reads.size(), false) {}

  // Of a reading thread.
  void ReadAll() {
    for (int64_t i = Claim(); i >= 0; i = Claim()) {
      const absl::Status status = reads_[static_cast<size_t>(i)].read(At(i));
      MutexLock lock(mu_);
      is_read_[static_cast<size_t>(i)] = true;
      error_.Update(status);
      stopped_ = stopped_ || !status.ok();
      changed_.NotifyAll();
    }
  }

  // Of the caller.
  absl::Status UseAll() {
    for (int64_t i = 0; i < static_cast<int64_t>(reads_.size()); ++i) {
      RETURN_IF_ERROR(Await(i));
      reads_[static_cast<size_t>(i)].use(At(i));
      CountWork();
      MutexLock lock(mu_);
      used_ = i + 1;
      changed_.NotifyAll();
    }
    return absl::OkStatus();
  }

  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }

 private:
  char* At(int64_t i) const { return memory_.data() + i % slots_ * bytes_; }

  // The next read, once its slot is free; -1: there is none.
  int64_t Claim() {
    MutexLock lock(mu_);
    const int64_t i = next_++;
    if (i >= static_cast<int64_t>(reads_.size())) return -1;
    changed_.Wait(lock, [this, i]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopped_ || i < used_ + slots_;
    });
    return stopped_ ? -1 : i;
  }

  absl::Status Await(int64_t i) {
    MutexLock lock(mu_);
    changed_.Wait(lock, [this, i]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopped_ || is_read_[static_cast<size_t>(i)];
    });
    return error_;
  }

  const std::vector<OrderedRead>& reads_;
  const int64_t slots_, bytes_;
  const PinnedArray<char> memory_;
  Mutex mu_;
  CondVar changed_;
  std::vector<bool> is_read_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0, used_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

// Joined whatever a use throws.
class Readers {
 public:
  Readers(Slots* slots, int64_t threads) : slots_(slots) {
    for (int64_t t = 0; t < threads; ++t) {
      threads_.emplace_back([slots] { slots->ReadAll(); });
    }
  }
  ~Readers() {
    slots_->Stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

 private:
  Slots* const slots_;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::Status RunOrderedReads(const std::vector<OrderedRead>& reads, int threads) {
  const auto count = static_cast<int64_t>(reads.size());
  Slots slots(reads, std::max<int64_t>(1, std::min<int64_t>(count, threads + 2)));
  const Readers readers(&slots, std::min<int64_t>(count, std::max(threads, 1)));
  return slots.UseAll();
}

}  // namespace coxswain::engine
