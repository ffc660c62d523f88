#include "kernels/cuda/products/gemm_tuning.h"

#include <atomic>

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

}  // namespace coxswain::kernels
