#include "bench/controller/dispatch/stamps.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace coxswain::bench {
namespace {

// On the low half of the number, across processes.
void Futex(std::atomic<int64_t>* word, int operation, int64_t value) {
  syscall(SYS_futex, word, operation, static_cast<uint32_t>(value), nullptr, nullptr, 0);
}

}  // namespace

Stamps::Stamps(const std::string& path, int workers, int steps)
    : workers_(workers),
      steps_(steps),
      bytes_((1 + static_cast<size_t>(steps) * static_cast<size_t>(workers + 1)) *
             sizeof(int64_t)) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  void* mapped = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes_)) == 0) {
    mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (mapped == MAP_FAILED) {
    std::perror(path.c_str());
    std::exit(1);
  }
  close(fd);
  rows_ = static_cast<std::atomic<int64_t>*>(mapped);
}

Stamps::~Stamps() { munmap(rows_, bytes_); }

std::atomic<int64_t>* Stamps::Row(int64_t step) const { return rows_ + 1 + step * (workers_ + 1); }

void Stamps::Add(int64_t step) {
  if (step >= steps_) return;
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::steady_clock::now().time_since_epoch())
                          .count();
  std::atomic<int64_t>* row = Row(step);
  const int64_t place = row->fetch_add(1);
  if (place < workers_) row[1 + place] = now;
  if (place + 1 == workers_) Futex(row, FUTEX_WAKE, INT_MAX);
}

void Stamps::AwaitAll(int64_t step) {
  if (step >= steps_) return;
  std::atomic<int64_t>* row = Row(step);
  for (int64_t count = *row; count < workers_; count = *row) Futex(row, FUTEX_WAIT, count);
}

void Stamps::Clear() {
  for (int64_t step = 0; step < steps_; ++step) *Row(step) = 0;
}

std::vector<int64_t> Stamps::Of(int64_t step) const {
  const std::atomic<int64_t>* row = Row(step);
  const int64_t count = std::min<int64_t>(*row, workers_);
  return {row + 1, row + 1 + count};
}

}  // namespace coxswain::bench
