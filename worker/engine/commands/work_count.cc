#include "worker/engine/commands/work_count.h"

#include <atomic>

namespace coxswain::engine {
namespace {

std::atomic<uint64_t> work{0}, saved{0};

}  // namespace

void CountWork() { work.fetch_add(1, std::memory_order_relaxed); }

void CountSaved() { saved.fetch_add(1, std::memory_order_relaxed); }

uint64_t WorkDone() { return work.load(std::memory_order_relaxed); }

uint64_t BlocksSaved() { return saved.load(std::memory_order_relaxed); }

}  // namespace coxswain::engine
