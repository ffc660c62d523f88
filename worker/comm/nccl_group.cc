#include "worker/comm/nccl_group.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace coxswain::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWatchInterval{50};
constexpr std::chrono::microseconds kSettleInterval{20};
constexpr int kSettleYields = 200;  // a launch settles in tens of microseconds
// A key that begins so is for one rank: the relay sends it to no other.
constexpr char kToRank0[] = "to/0/";

milliseconds Until(std::chrono::steady_clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(
                                       deadline - std::chrono::steady_clock::now()));
}

ncclConfig_t NonBlocking(Communicator comm) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = NameOf(comm);
  return config;
}

}  // namespace

NcclGroup::NcclGroup(const GroupConfig& config) : config_(config) {
  for (Communicator comm : kCommunicators) {
    const int place = static_cast<int>(comm);
    members_[place] = MembersOf(config, comm);
    const int size = members_[place].size();
    lane_[place] = size == 1 ? -1 : size == config.world_size ? 0 : place;
  }
}

NcclGroup::~NcclGroup() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (watch_.joinable()) watch_.join();
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Form(const GroupConfig& config,
                                                           Rendezvous* rendezvous) {
  std::unique_ptr<NcclGroup> group(new NcclGroup(config));
  ASSIGN_OR_RETURN(group->nccl_, LoadNccl());
  if (const cudaError_t result = cudaGetDevice(&group->device_); result != cudaSuccess) {
    return absl::InternalError(absl::StrCat("cudaGetDevice: ", cudaGetErrorString(result)));
  }
  ASSIGN_OR_RETURN(group->marks_, NcclProgress::Create());
  group->watch_ = std::thread([raw = group.get()] { raw->Watch(); });
  const Clock::time_point deadline = Clock::now() + config.timeout;
  const absl::Status status = group->Meet(rendezvous, deadline);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("rank ", config.rank, " of ", config.world_size,
                                     ", forming the group: ", std::string(status.message())));
  }
  return group;
}

// Rank 0 learns who is there, and every rank then gets from it the id of the world: nobody enters
// NCCL, where waiting has no end, before all have come this far.
absl::StatusOr<std::string> NcclGroup::Introduce(Rendezvous* rendezvous,
                                                 Clock::time_point deadline) {
  const std::string version = absl::StrCat(nccl_->version);
  if (config_.rank != 0) {
    RETURN_IF_ERROR(rendezvous->Set(absl::StrCat(kToRank0, "nccl/", config_.rank), version));
    // Rank 0 waits as long as this one and then says who is missing.
    ASSIGN_OR_RETURN(const std::string id,
                     rendezvous->Get("nccl/world", Until(deadline) + milliseconds(2000)));
    if (id.size() == sizeof(ncclUniqueId)) return id;
    return absl::UnavailableError(id);
  }
  std::string problem;
  std::vector<int> missing;
  for (int rank = 1; rank < config_.world_size; ++rank) {
    const auto theirs = rendezvous->Get(absl::StrCat(kToRank0, "nccl/", rank), Until(deadline));
    if (absl::IsCancelled(theirs.status())) return theirs.status();
    if (!theirs.ok()) {
      missing.push_back(rank);
    } else if (int number = 0; absl::SimpleAtoi(*theirs, &number) && number != nccl_->version) {
      problem = absl::StrCat("rank ", rank, " has NCCL ", NcclVersionText(number), ", rank 0 ",
                             NcclVersionText(nccl_->version), ": install one version");
    }
  }
  if (!missing.empty()) {
    problem = absl::StrCat("rank ", absl::StrJoin(missing, ", "), " did not come within ",
                           config_.timeout.count(), " ms");
  }
  if (!problem.empty()) {
    RETURN_IF_ERROR(rendezvous->Set("nccl/world", problem));
    return missing.empty() ? absl::FailedPreconditionError(problem)
                           : absl::DeadlineExceededError(problem);
  }
  ncclUniqueId id;
  RETURN_IF_ERROR(NcclStatus(*nccl_, nccl_->GetUniqueId(&id), "ncclGetUniqueId"));
  const std::string bytes(id.internal, sizeof(id.internal));
  RETURN_IF_ERROR(rendezvous->Set("nccl/world", bytes));
  return bytes;
}

absl::Status NcclGroup::Meet(Rendezvous* rendezvous, Clock::time_point deadline) {
  ASSIGN_OR_RETURN(const std::string bytes, Introduce(rendezvous, deadline));
  ncclUniqueId id;
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(Trouble());
    ncclConfig_t config = NonBlocking(Communicator::kWorld);
    ncclComm_t* world = &comms_[0];
    const ncclResult_t result =
        nccl_->CommInitRankConfig(world, config_.world_size, id, config_.rank, &config);
    RETURN_IF_ERROR(
        Settle(*world, result, "communicator world: ncclCommInitRank", deadline, rendezvous));
  }
  for (Communicator comm : {Communicator::kShard, Communicator::kReplicate}) {
    RETURN_IF_ERROR(Split(comm, rendezvous, deadline));
  }
  return absl::OkStatus();
}

// Collective over the world: ranks that are alone in `comm` take part and get none.
absl::Status NcclGroup::Split(Communicator comm, Rendezvous* rendezvous,
                              Clock::time_point deadline) {
  const int place = static_cast<int>(comm);
  if (lane_[place] != place) return absl::OkStatus();  // the same on all ranks
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Trouble());
  ncclConfig_t config = NonBlocking(comm);
  const std::string call = absl::StrCat("communicator ", NameOf(comm), ": ncclCommSplit");
  ncclResult_t result = nccl_->CommSplit(comms_[0], members_[place].ranks[0], members_[place].index,
                                         &comms_[place], &config);
  // Of a communicator that does not block, NCCL says ncclSuccess here while it still splits, and
  // the new handle is there when the parent has finished.
  if (result == ncclSuccess) result = ncclInProgress;
  RETURN_IF_ERROR(Settle(comms_[0], result, call, deadline, rendezvous));
  return Settle(comms_[place], ncclInProgress, call, deadline, rendezvous);
}

absl::Status NcclGroup::Settle(ncclComm_t comm, ncclResult_t result, const std::string& call,
                               Clock::time_point deadline, Rendezvous* rendezvous) {
  for (int look = 0; result == ncclInProgress; ++look) {
    if (const ncclResult_t asked = nccl_->CommGetAsyncError(comm, &result); asked != ncclSuccess) {
      result = asked;
    }
    if (result != ncclInProgress) break;
    mu_.Unlock();
    if (look < kSettleYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSettleInterval);
    }
    absl::Status cancelled;
    if (rendezvous != nullptr) {
      const auto none = rendezvous->Get("nccl/cancelled", milliseconds(0));
      if (absl::IsCancelled(none.status())) cancelled = none.status();
    }
    mu_.Lock();
    RETURN_IF_ERROR(Trouble());
    if (!cancelled.ok()) return Failed(cancelled);
    if (Clock::now() >= deadline) {
      return Failed(absl::DeadlineExceededError(
          absl::StrCat(call, " did not finish within ", config_.timeout.count(), " ms")));
    }
  }
  const absl::Status status = NcclStatus(*nccl_, result, call);
  return status.ok() ? status : Failed(status);
}

absl::Status NcclGroup::Trouble() const {
  if (aborted_) return absl::CancelledError("the group was aborted");
  return failure_;
}

// The first failure stays, and ends the communicators.
absl::Status NcclGroup::Failed(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
  wake_.NotifyAll();
  return failure_;
}

std::string NcclGroup::Name() const {
  return CallName(progress_.started,
                  progress_.operation.empty() ? "none in progress" : progress_.operation, config_);
}

absl::Status NcclGroup::Enqueue(Communicator comm, const std::string& operation,
                                cudaStream_t stream, const Launch& launch) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Trouble());
  const uint64_t ordinal = ++issued_;
  const int lane = lane_[static_cast<int>(comm)];
  const std::string call = CallName(ordinal, operation, config_);
  if (lane < 0) {
    const absl::Status status = NcclStatus(*nccl_, launch(nullptr), call);
    return status.ok() ? status : Failed(status);
  }
  absl::Status status = marks_->Begin(lane, ordinal, operation, stream);
  if (!status.ok()) return Failed(std::move(status));
  RETURN_IF_ERROR(
      Settle(comms_[lane], launch(comms_[lane]), call, Clock::now() + config_.timeout, nullptr));
  status = marks_->End(lane, ordinal, stream);
  return status.ok() ? status : Failed(std::move(status));
}

absl::Status NcclGroup::EnqueueCopies(Communicator comm, const std::string& operation,
                                      cudaStream_t stream, const Copies& copies) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Trouble());
  const uint64_t ordinal = ++issued_;
  const int lane = lane_[static_cast<int>(comm)];
  absl::Status status = marks_->Begin(lane, ordinal, operation, stream);
  if (status.ok()) status = copies(lane);
  if (status.ok()) status = marks_->End(lane, ordinal, stream);
  if (status.ok()) return status;
  return Failed(absl::Status(status.code(), absl::StrCat(CallName(ordinal, operation, config_),
                                                         ": ", std::string(status.message()))));
}

void NcclGroup::OnEnd(std::function<void()> end_waits) {
  MutexLock lock(mu_);
  end_waits_ = std::move(end_waits);
}

absl::Status NcclGroup::Wait(cudaStream_t stream) {
  const Clock::time_point deadline = Clock::now() + config_.timeout;
  while (true) {
    const cudaError_t result = cudaStreamQuery(stream);
    MutexLock lock(mu_);
    RETURN_IF_ERROR(Trouble());
    if (result == cudaSuccess) return absl::OkStatus();
    if (result != cudaErrorNotReady) {
      return Failed(absl::InternalError(absl::StrCat(Name(), ": ", cudaGetErrorString(result))));
    }
    if (Clock::now() >= deadline) {
      return Failed(absl::UnavailableError(
          absl::StrCat(Name(), ": not finished within ", config_.timeout.count(), " ms")));
    }
    lock.Unlock();
    std::this_thread::sleep_for(kSettleInterval);
  }
}

// A lane has the name of its first communicator; one that none has is left out.
Progress NcclGroup::Look() const {
  Progress progress = marks_->Look(Clock::now());
  std::vector<CommunicatorProgress> named;
  for (Communicator comm : kCommunicators) {
    const int lane = lane_[static_cast<int>(comm)];
    if (lane < 0) continue;
    CommunicatorProgress& on = progress.communicators[static_cast<size_t>(lane)];
    if (!on.name.empty()) continue;
    on.name = NameOf(comm);
    on.size = members(comm).size();
    named.push_back(on);
  }
  progress.communicators = std::move(named);
  return progress;
}

absl::Status NcclGroup::LookForTrouble() {
  progress_ = Look();
  for (ncclComm_t comm : comms_) {
    if (comm == nullptr) continue;
    ncclResult_t error = ncclSuccess;
    const ncclResult_t asked = nccl_->CommGetAsyncError(comm, &error);
    RETURN_IF_ERROR(NcclStatus(*nccl_, asked != ncclSuccess ? asked : error, Name()));
  }
  if (progress_.in_it_for < config_.timeout) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(Name(), ": in progress for ", progress_.in_it_for.count(), " ms, the limit is ",
                   config_.timeout.count(), " ms: another rank does not take part"));
}

void NcclGroup::Watch() {
  (void)cudaSetDevice(device_);
  MutexLock lock(mu_);
  while (!stopping_) {
    wake_.WaitFor(lock, kWatchInterval);
    if (ended_) continue;
    if (Trouble().ok()) {
      absl::Status status = LookForTrouble();
      if (!status.ok()) (void)Failed(std::move(status));
    }
    if (!Trouble().ok()) EndAll();
  }
  if (!ended_) EndAll();
}

// As one group: ended one by one, they can wait for each other. The mutex is let go: NCCL waits
// here until what the engine still holds of them, graphs, is gone too.
void NcclGroup::EndAll() {
  ended_ = true;
  if (end_waits_) end_waits_();
  const auto comms = std::exchange(comms_, {});
  mu_.Unlock();
  nccl_->GroupStart();
  for (ncclComm_t comm : comms) {
    if (comm != nullptr) nccl_->CommAbort(comm);
  }
  nccl_->GroupEnd();
  mu_.Lock();
}

absl::Status NcclGroup::Poll() const {
  MutexLock lock(mu_);
  return Trouble();
}

Progress NcclGroup::progress() const {
  MutexLock lock(mu_);
  if (Trouble().ok()) progress_ = Look();
  return progress_;
}

void NcclGroup::Abort() {
  MutexLock lock(mu_);
  aborted_ = true;
  wake_.NotifyAll();
}

}  // namespace coxswain::comm
