#include "worker/comm/nccl_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/comm/cuda_calls.h"
#include "worker/comm/members.h"

namespace coxswain::comm {
namespace {

// More calls than a step enqueues ahead of the device.
constexpr size_t kEagerKept = 16384;

}  // namespace

absl::StatusOr<std::unique_ptr<NcclProgress>> NcclProgress::Create() {
  std::unique_ptr<NcclProgress> progress(new NcclProgress);
  ASSIGN_OR_RETURN(void* const write, DriverFunction("cuStreamWriteValue32"));
  progress->write_ = reinterpret_cast<decltype(&cuStreamWriteValue32_v2)>(write);
  void* words = nullptr;
  RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&words, kLanes * sizeof(Words), cudaHostAllocMapped | cudaHostAllocPortable),
      "cudaHostAlloc"));
  progress->words_ = static_cast<Words*>(words);
  for (int lane = 0; lane < kLanes; ++lane) {
    progress->words_[lane].started = 0;
    progress->words_[lane].finished = 0;
  }
  return progress;
}

NcclProgress::~NcclProgress() {
  if (words_ != nullptr) (void)cudaFreeHost(words_);
}

absl::Status NcclProgress::Write(const volatile uint32_t* word, uint64_t value,
                                 cudaStream_t stream) const {
  const CUresult result = write_(stream, reinterpret_cast<CUdeviceptr>(word),
                                 static_cast<uint32_t>(value), CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cuStreamWriteValue32: CUDA driver error ", static_cast<int>(result)));
}

absl::Status NcclProgress::Begin(int lane, uint64_t ordinal, std::string operation,
                                 cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  RETURN_IF_ERROR(CudaStatus(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing"));
  if (capture == cudaStreamCaptureStatusNone) {
    eager_.emplace_back(ordinal, std::move(operation));
    if (eager_.size() > kEagerKept) eager_.pop_front();
  } else {
    captured_[ordinal] = std::move(operation);
  }
  newest_ = issued_[lane] = ordinal;
  return Write(&words_[lane].started, ordinal, stream);
}

absl::Status NcclProgress::End(int lane, uint64_t ordinal, cudaStream_t stream) {
  return Write(&words_[lane].finished, ordinal, stream);
}

uint64_t NcclProgress::Number(uint32_t low) const {
  const uint64_t number = (newest_ & ~uint64_t{0xffffffffu}) | low;
  return number > newest_ ? number - (uint64_t{1} << 32) : number;
}

std::string NcclProgress::OperationOf(uint64_t ordinal) const {
  if (const auto it = captured_.find(ordinal); it != captured_.end()) return it->second;
  const auto it = std::lower_bound(eager_.begin(), eager_.end(), ordinal,
                                   [](const auto& entry, uint64_t n) { return entry.first < n; });
  return it != eager_.end() && it->first == ordinal ? it->second : "a collective";
}

Progress NcclProgress::Look(Clock::time_point now) {
  Progress progress;
  uint64_t newest = 0;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t started = words_[i].started, finished = words_[i].finished;
    Lane& lane = lanes_[i];
    if (started != lane.started || finished != lane.finished || issued_[i] != lane.issued) {
      lane = {started, finished, issued_[i], now};
    }
    progress.finished = std::max(progress.finished, Number(finished));
    newest = std::max(newest, Number(started));
    CommunicatorProgress& on = progress.communicators.emplace_back();
    on.started = Number(started);
    on.finished = Number(finished);
    if (on.started > 0) on.operation = OperationOf(on.started);
    on.bytes = OperationBytes(on.operation);
    if (started == finished) continue;
    // Of several in progress the one that is longest.
    const auto in_it_for = std::chrono::duration_cast<std::chrono::milliseconds>(now - lane.since);
    on.in_it_for = in_it_for;
    if (!progress.operation.empty() && in_it_for <= progress.in_it_for) continue;
    progress.started = Number(started);
    progress.operation = OperationOf(progress.started);
    progress.in_it_for = in_it_for;
  }
  if (progress.operation.empty()) progress.started = newest;
  return progress;
}

}  // namespace coxswain::comm
