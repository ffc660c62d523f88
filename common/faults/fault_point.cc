#include "common/faults/fault_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/faults/fault_table.h"
#include "common/mutex.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::fault {
namespace {

struct Fault {
  const Row* row = nullptr;
  std::optional<int64_t> step, rank, count;
  std::string once;
  std::string action;
  int64_t ms = 0;   // of delay and jump
  int64_t met = 0;  // times that the other conditions were
};

struct Armed {
  Mutex mu;
  std::vector<Fault> faults ABSL_GUARDED_BY(mu);
  int64_t jump_ms ABSL_GUARDED_BY(mu) = 0;
};
Armed& TheArmed() {
  static Armed& armed = *new Armed;  // points are reached while statics go
  return armed;
}

absl::Status Wrong(const std::string& text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("fault '", text, "': ", what, "; see --list-faults"));
}

bool Number(const std::string& text, int64_t least, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number >= least;
}

absl::Status ReadCondition(const std::string& fault, const std::string& part, Fault* out) {
  const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
  const auto& [key, value] = pair;
  int64_t number = 0;
  if (key == "once" && !value.empty()) {
    out->once = value;
    return absl::OkStatus();
  }
  if ((key == "step" && !KnowsStep(*out->row)) || (key == "rank" && !KnowsRank(*out->row))) {
    return Wrong(fault, absl::StrCat(out->row->name, " knows no ", key));
  }
  std::optional<int64_t>* to = nullptr;
  if (key == "step") to = &out->step;
  if (key == "rank") to = &out->rank;
  if (key == "count") to = &out->count;
  if (to == nullptr) {
    return Wrong(fault, absl::StrCat("no condition '", part,
                                     "'; there are step=N, rank=N, count=N and once=PATH"));
  }
  if (!Number(value, key == "count" ? 1 : 0, &number)) {
    return Wrong(fault, absl::StrCat("'", part, "' needs a number from ", key == "count" ? 1 : 0));
  }
  *to = number;
  return absl::OkStatus();
}

absl::Status ReadAction(const std::string& fault, const std::string& part, Fault* out) {
  const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
  out->action = pair.first;
  const std::vector<std::string> known = ActionsOf(*out->row);
  for (const std::string& action : known) {
    const bool timed = action.ends_with("=MS");
    if (out->action != action.substr(0, action.find('='))) continue;
    const int64_t least = out->action == "jump" ? -INT64_MAX : 0;
    if (timed ? Number(pair.second, least, &out->ms) : pair.second.empty()) {
      return absl::OkStatus();
    }
    return Wrong(fault, absl::StrCat("'", part, "' is written ", action));
  }
  return Wrong(fault, absl::StrCat("no action '", part, "' at ", out->row->name, "; there are ",
                                   absl::StrJoin(known, ", ")));
}

absl::StatusOr<Fault> Read(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Fault fault;
  for (const Row& row : Table()) {
    if (row.name == parts.front()) fault.row = &row;
  }
  if (fault.row == nullptr) {
    return Wrong(text,
                 absl::StrCat("no point '", parts.front(), "'; there are ",
                              absl::StrJoin(Table(), ", ", [](std::string* out, const Row& row) {
                                out->append(row.name);
                              })));
  }
  if (parts.size() < 2) {
    return Wrong(text, absl::StrCat("has no action; there are ",
                                    absl::StrJoin(ActionsOf(*fault.row), ", ")));
  }
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    RETURN_IF_ERROR(ReadCondition(text, parts[i], &fault));
  }
  RETURN_IF_ERROR(ReadAction(text, parts.back(), &fault));
  return fault;
}

// Whether this process is the first: the file is made with what is written in it.
bool IsFirst(const Fault& fault) {
  if (fault.once.empty()) return true;
  const int fd = ::open(fault.once.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const std::string line = absl::StrCat(fault.row->name, " ", fault.action, " ", getpid(), "\n");
  const ssize_t ignored = ::write(fd, line.data(), line.size());
  (void)ignored;
  ::close(fd);
  return true;
}

bool Meets(Fault& fault, Point point, const Where& where) {
  if (fault.row->point != point) return false;
  if (fault.step && *fault.step != where.step) return false;
  if (fault.rank && *fault.rank != where.rank) return false;
  ++fault.met;
  return (!fault.count || *fault.count == fault.met) && IsFirst(fault);
}

absl::Status Act(const Fault& fault) {
  if (fault.action == "kill") {
    ::kill(getpid(), SIGKILL);
    while (true) ::pause();
  }
  // To this thread: of a signal to the process another thread may hear first, while this one goes
  // on.
  if (fault.action == "stop") ::raise(SIGSTOP);
  if (fault.action == "delay") std::this_thread::sleep_for(std::chrono::milliseconds(fault.ms));
  const std::string point = absl::StrCat("fault point ", fault.row->name);
  if (fault.action == "enospc") return ErrnoStatus(ENOSPC, "pass", point);
  if (fault.action != "error") return absl::OkStatus();
  if (fault.row->failure == Failure::kFile) return ErrnoStatus(EIO, "pass", point);
  return absl::UnavailableError(absl::StrCat(point, ": error"));
}

}  // namespace

#ifndef COXSWAIN_NO_FAULT_POINTS
namespace internal {
std::atomic<bool> armed{false};
}  // namespace internal
#endif

absl::Status Arm(std::string_view text, Process process) {
  std::vector<Fault> faults;
  const std::string all(text);
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(all, ',', absl::SkipEmpty()))) {
    ASSIGN_OR_RETURN(Fault fault, Read(part));
    if (Has(process, *fault.row)) faults.push_back(std::move(fault));
  }
#ifdef COXSWAIN_NO_FAULT_POINTS
  if (text.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this build has no fault points (COXSWAIN_FAULT_POINTS=OFF): unset "
                   "COXSWAIN_FAULT, which is '",
                   std::string(text), "'"));
#else
  Armed& armed = TheArmed();
  MutexLock lock(armed.mu);
  armed.faults = std::move(faults);
  armed.jump_ms = 0;
  internal::armed = !armed.faults.empty();
  return absl::OkStatus();
#endif
}

absl::Status ArmFromEnvironment(Process process) {
  const char* text = std::getenv("COXSWAIN_FAULT");
  return Arm(text == nullptr ? "" : text, process);
}

absl::Status internal::Meet(Point point, const Where& where) {
  std::vector<Fault> due;
  {
    Armed& armed = TheArmed();
    MutexLock lock(armed.mu);
    for (Fault& fault : armed.faults) {
      if (!Meets(fault, point, where)) continue;
      if (fault.action == "jump") armed.jump_ms += fault.ms;
      due.push_back(fault);
    }
  }
  for (const Fault& fault : due) RETURN_IF_ERROR(Act(fault));
  return absl::OkStatus();
}

int64_t internal::JumpMs() {
  Pass(Point::kClockWall);
  Armed& armed = TheArmed();
  MutexLock lock(armed.mu);
  return armed.jump_ms;
}

}  // namespace coxswain::fault
