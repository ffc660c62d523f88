#include "kernels/cuda/products/gemm_tuning.h"

#include <atomic>
#include <optional>

#include "kernels/cuda/products/gemm_table.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels {
namespace {

std::atomic<bool> tuning{false};

}  // namespace

void SetGemmTuning(bool on) {
  if (on && !tuning.load(std::memory_order_relaxed)) cuda::GemmChoices::Instance().ForgetUse();
  tuning.store(on, std::memory_order_relaxed);
}

bool cuda::MayTune(const Stream* stream) {
  if (!tuning.load(std::memory_order_relaxed)) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CheckCuda(cudaStreamIsCapturing(Handle(stream), &status), "cudaStreamIsCapturing");
  return status == cudaStreamCaptureStatusNone;
}

cuda::GemmChoice cuda::ChooseGemm(const Product& args, Stream* stream) {
  GemmChoices& choices = GemmChoices::Instance();
  const GemmKey key = MakeGemmKey(args);
  const bool tune = MayTune(stream);
  std::optional<GemmEntry> entry = choices.Find(key);
  if (entry && entry->checked && (entry->settled || !tune)) return entry->choice;
  if (entry && !entry->checked) {
    entry->checked = GemmRuns(args, entry->choice, stream);
    if (entry->checked) return choices.Remember(key, *entry);
    entry.reset();
  }
  if (tune) {
    return choices.Remember(
        key, {.choice = FastestGemm(args, stream), .settled = true, .checked = true});
  }
  if (entry) return entry->choice;
  return choices.Remember(key, {.choice = GemmCandidates(args, stream).front(), .checked = true});
}

}  // namespace coxswain::kernels
