#include "common/files/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/regular_file.h"
#include "common/mutex.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain {

// What the handler knows of a mapping. It reads without a lock what may be given back meanwhile, so
// guards live as long as the process and are used again.
class MappedFile::Guard {
 public:
  static Guard* Take(const void* mapping, size_t bytes);
  void GiveBack();
  bool lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  static void InstallHandler();
  static void OnSigbus(int signal, siginfo_t* info, void* context);
  bool Patch(uintptr_t address);

  static Mutex mu_;                 // of who takes and gives back
  static std::atomic<Guard*> all_;  // grows at its head
  static struct sigaction before_;  // of SIGBUS, when the first file was mapped
  static uintptr_t page_;           // in bytes; 0: no handler yet

  std::atomic<uintptr_t> begin_ = 0;  // 0: nothing is mapped
  std::atomic<uintptr_t> end_ = 0;    // of the last page
  std::atomic<bool> lost_ = false;
  Guard* next_ = nullptr;
};

Mutex MappedFile::Guard::mu_;
std::atomic<MappedFile::Guard*> MappedFile::Guard::all_ = nullptr;
struct sigaction MappedFile::Guard::before_ = {};
uintptr_t MappedFile::Guard::page_ = 0;

void MappedFile::Guard::InstallHandler() {
  if (page_ != 0) return;
  page_ = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = &OnSigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigaction(SIGBUS, &action, &before_);
}

MappedFile::Guard* MappedFile::Guard::Take(const void* mapping, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(mapping);
  MutexLock lock(mu_);
  InstallHandler();
  Guard* guard = all_;
  while (guard != nullptr && guard->begin_ != 0) guard = guard->next_;
  if (guard == nullptr) {
    guard = new Guard;
    guard->next_ = all_;
    all_ = guard;
  }
  guard->lost_ = false;
  guard->end_ = (begin + bytes + page_ - 1) / page_ * page_;
  guard->begin_ = begin;
  return guard;
}

void MappedFile::Guard::GiveBack() {
  MutexLock lock(mu_);
  begin_ = 0;
}

// Async-signal-safe. Puts zeros from the page of `address` to the end of this mapping, if it is in
// it: page by page there would be more mappings than a process may have.
bool MappedFile::Guard::Patch(uintptr_t address) {
  const uintptr_t end = end_;
  if (begin_ == 0 || address < begin_ || address >= end) return false;
  lost_ = true;
  const uintptr_t from = address / page_ * page_;
  return ::mmap(reinterpret_cast<void*>(from), end - from, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void MappedFile::Guard::OnSigbus(int signal, siginfo_t* info, void* /*context*/) {
  const int error_number = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool fault = info->si_code > 0;  // else another process sent it
  for (Guard* guard = all_; fault && guard != nullptr; guard = guard->next_) {
    if (!guard->Patch(address)) continue;
    errno = error_number;
    return;
  }
  ::sigaction(signal, &before_, nullptr);  // not ours: the instruction faults again
  if (!fault) ::raise(signal);
}

MappedFile::MappedFile(std::string path, dev_t device, ino_t inode)
    : path_(std::move(path)), device_(device), inode_(inode) {}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return ErrnoStatus(errno, "inspect", path);
  std::unique_ptr<MappedFile> mapped(new MappedFile(path, info.st_dev, info.st_ino));
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) return mapped;
  void* mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (mapping == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  mapped->bytes_ = {static_cast<const char*>(mapping), bytes};
  mapped->guard_ = Guard::Take(mapping, bytes);
  return mapped;
}

MappedFile::~MappedFile() {
  if (guard_ == nullptr) return;
  guard_->GiveBack();
  ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

absl::Status MappedFile::Intact() const {
  if (guard_ == nullptr) return absl::OkStatus();
  struct stat info {};
  const bool there =
      ::stat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
  const auto bytes = static_cast<int64_t>(bytes_.size());
  // Behind its end the last page of a file reads as zeros, without a signal.
  if (there && info.st_size < bytes) {
    return absl::DataLossError(absl::StrCat(path_, " was cut to ", info.st_size, " bytes, it had ",
                                            bytes, " when it was opened; put it back"));
  }
  if (!guard_->lost()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": its storage did not give all of its ", bytes,
                                          " bytes any more while they were read"));
}

}  // namespace coxswain
