#include "worker/comm/peer_copies.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/tensors/ordered_sum.h"
#include "worker/comm/cuda_calls.h"

namespace coxswain::comm {
namespace {

constexpr int kLanes = 3, kMeetings = 2;
// Below it NCCL's one kernel is quicker than two meetings and a copy.
constexpr int64_t kLeastBytes = int64_t{1} << 20;
constexpr int64_t kAlignment = 16;
constexpr std::chrono::milliseconds kReleaseInterval{1};

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

CUstreamBatchMemOpParams WriteOp(const uint32_t* word, uint32_t value) {
  CUstreamBatchMemOpParams op{};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  op.writeValue.value = value;
  op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // after what the stream wrote before
  return op;
}

CUstreamBatchMemOpParams WaitOp(const uint32_t* word) {
  CUstreamBatchMemOpParams op{};
  op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
  op.waitValue.value = 1;
  op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return op;
}

absl::Status CopyPeer(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  return CudaStatus(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
      "cudaMemcpyAsync between GPUs");
}

}  // namespace

// A communicator of all ranks is in lane 0.
PeerCopies::PeerCopies(const GroupConfig& config)
    : rank_(config.rank),
      world_(config.world_size),
      lanes_(config.shard == 1 || config.shard == config.world_size ? 1 : kLanes) {}

int64_t PeerCopies::StagingBytes() const {
  return kStagingBytes / lanes_ / kAlignment * kAlignment;
}

char* PeerCopies::Staging(int lane) const { return staging_ + lane * StagingBytes(); }

absl::Status PeerCopies::Allocate(const std::string& host_id, const PeerMemory::Exchange& exchange,
                                  std::vector<DeviceRegion>* regions) {
  ASSIGN_OR_RETURN(void* const batch, DriverFunction("cuStreamBatchMemOp"));
  batch_ = reinterpret_cast<decltype(batch_)>(batch);
  const auto bytes = static_cast<size_t>(kLanes * kMeetings * world_) * sizeof(uint32_t);
  void *words = nullptr, *staging = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&words, bytes), "cudaMalloc"));
  words_ = static_cast<uint32_t*>(words);
  RETURN_IF_ERROR(CudaStatus(cudaMemset(words_, 0, bytes), "cudaMemset"));
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&staging, kStagingBytes), "cudaMalloc"));
  staging_ = static_cast<char*>(staging);
  // Of another priority than the streams whose waits it ends: it never queues behind them.
  int least = 0, greatest = 0;
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities"));
  RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithPriority(&releases_, cudaStreamNonBlocking, greatest),
                 "cudaStreamCreateWithPriority"));
  regions->push_back({words_, static_cast<int64_t>(bytes)});
  ASSIGN_OR_RETURN(memory_, PeerMemory::Open(rank_, host_id, *regions, exchange));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerCopies>> PeerCopies::Open(const GroupConfig& config,
                                                             std::vector<DeviceRegion> regions,
                                                             const PeerMemory::Exchange& exchange) {
  std::erase_if(regions, [](const DeviceRegion& region) { return region.bytes < kLeastBytes; });
  std::unique_ptr<PeerCopies> copies(new PeerCopies(config));
  RETURN_IF_ERROR(copies->Allocate(config.host_id, exchange, &regions));
  return copies;
}

PeerCopies::~PeerCopies() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (releaser_.joinable()) releaser_.join();
  memory_.reset();
  if (releases_ != nullptr) (void)cudaStreamDestroy(releases_);
  (void)cudaFree(staging_);
  (void)cudaFree(words_);
}

uint32_t* PeerCopies::Word(uint32_t* words, int lane, int meeting, int rank) const {
  return words + (lane * kMeetings + meeting) * world_ + rank;
}

bool PeerCopies::Takes(const Members& members, const void* whole, int64_t bytes) const {
  const int size = members.size();
  if (bytes < kLeastBytes || size < 2 || size > kernels::kMaxSummands) return false;
  if (bytes % (size * kAlignment) != 0 || !Aligned(whole)) return false;
  const bool open = std::all_of(members.ranks.begin(), members.ranks.end(), [this](int rank) {
    return rank == rank_ || memory_->IsOpen(rank);
  });
  return open && memory_->Holds(whole, bytes);
}

absl::Status PeerCopies::Meet(const Members& members, int lane, int meeting,
                              cudaStream_t stream) const {
  std::vector<CUstreamBatchMemOpParams> ops;
  const auto for_others = [&](const auto& op) {
    for (int rank : members.ranks) {
      if (rank != rank_) ops.push_back(op(rank));
    }
  };
  for_others([&](int rank) {
    auto* theirs = reinterpret_cast<uint32_t*>(memory_->Of(rank, words_));
    return WriteOp(Word(theirs, lane, meeting, rank_), 1);
  });
  for_others([&](int rank) { return WaitOp(Word(words_, lane, meeting, rank)); });
  for_others([&](int rank) { return WriteOp(Word(words_, lane, meeting, rank), 0); });
  const CUresult result = batch_(stream, static_cast<unsigned>(ops.size()), ops.data(), 0);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cuStreamBatchMemOp: CUDA driver error ", static_cast<int>(result)));
}

absl::Status PeerCopies::AllGather(const Members& members, int lane, const void* send,
                                   void* receive, int64_t bytes, cudaStream_t stream) {
  char* const whole = static_cast<char*>(receive);
  char* const own = whole + members.index * bytes;
  if (send != own) RETURN_IF_ERROR(CopyPeer(own, send, bytes, stream));  // others read it there
  RETURN_IF_ERROR(Meet(members, lane, 0, stream));
  for (int step = 1; step < members.size(); ++step) {
    const int place = (members.index + step) % members.size();
    char* const part = whole + place * bytes;
    const int rank = members.ranks[static_cast<size_t>(place)];
    RETURN_IF_ERROR(CopyPeer(part, memory_->Of(rank, part), bytes, stream));
  }
  return Meet(members, lane, 1, stream);
}

absl::Status PeerCopies::ReduceScatter(const Members& members, int lane, const Scatter& scatter,
                                       cudaStream_t stream) {
  const int64_t n = scatter.n, element = kernels::DTypeBytes(scatter.dtype);
  const int64_t others = members.size() - 1;
  const int64_t most = StagingBytes() / others / kAlignment * kAlignment / element;
  const char* const own = static_cast<const char*>(scatter.send) + members.index * n * element;
  RETURN_IF_ERROR(Meet(members, lane, 0, stream));
  for (int64_t first = 0; first < n; first += most) {
    kernels::OrderedSumArgs sum{
        .dtype = scatter.dtype, .count = std::min(most, n - first), .summands = members.size()};
    if (scatter.total != nullptr) {
      sum.total = scatter.total + first;
    } else {
      sum.out = static_cast<char*>(scatter.receive) + first * element;
    }
    sum.in[members.index] = own + first * element;
    for (int step = 1; step < members.size(); ++step) {
      const int place = (members.index + step) % members.size();
      const int rank = members.ranks[static_cast<size_t>(place)];
      char* const staged = Staging(lane) + (step - 1) * most * element;
      RETURN_IF_ERROR(
          CopyPeer(staged, memory_->Of(rank, own + first * element), sum.count * element, stream));
      sum.in[place] = staged;
    }
    kernels::OrderedSum(sum, stream);
  }
  return Meet(members, lane, 1, stream);
}

// What graphs still hold waits again and again, on words that its own launches clear.
void PeerCopies::EndWaits() {
  MutexLock lock(mu_);
  if (stopping_ || releaser_.joinable()) return;
  int device = 0;
  (void)cudaGetDevice(&device);
  releaser_ = std::thread([this, device] {
    (void)cudaSetDevice(device);
    const auto bytes = static_cast<size_t>(kLanes * kMeetings * world_) * sizeof(uint32_t);
    MutexLock waiting(mu_);
    while (!stopping_) {
      (void)cudaMemsetAsync(words_, 1, bytes, releases_);
      wake_.WaitFor(waiting, kReleaseInterval);
    }
  });
}

}  // namespace coxswain::comm
