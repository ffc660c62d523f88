#include "controller/planner/time/cut_head.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/extents.h"
#include "common/plan/storage.h"
#include "controller/planner/time/gpu_time.h"
#include "controller/planner/time/product_shares.h"

namespace coxswain::planner {
namespace {

// As kernels/loss/cut_panels.cc has them.
constexpr int64_t kCutTileColumns = 256, kCutRowBytes = 32, kCutPartialBytes = 20,
                  kCutPassRows = 256;
constexpr int64_t kCutProductBytes = int64_t{8} << 20;    // cuda
constexpr int64_t kUsualCutBytes = int64_t{136} << 20;    // cuda
constexpr int64_t kUsualCpuCutBytes = int64_t{64} << 20;  // that of a chunk of logits

// Of an H200. Only which of two heads is faster is asked, on whatever GPU.
constexpr GpuRates kRates = {685e12, 4.28e12};

int64_t AlignedBytes(int64_t bytes) { return CeilDiv(bytes, 256) * 256; }

int64_t CutTileBytes(const plan::Plan& plan) {
  return plan::BatchExtents(plan).target_rows * kCutTileColumns * plan::ComputeBytes(plan);
}

// Storage of the gradient of the head; nullopt: frozen.
std::optional<plan::Storage> HeadGradientStorage(const plan::Plan& plan) {
  for (const model::Parameter& p : plan.parameters) {
    const bool is_head = model::IsHead(p) || (model::IsEmbedding(p) && plan.model.tie_embeddings);
    if (is_head && p.trainable()) return plan::StorageOf(plan, p).gradient;
  }
  return std::nullopt;
}

struct HeadTimes {
  double flops_per_second, rows, matrix, element, gradient;  // matrix: elements of W

  // Of a product over `rows` rows that moves so many bytes.
  double Product(double rows_of_product, double bytes) const {
    return std::max(2 * rows_of_product * matrix / flops_per_second,
                    bytes / kRates.copy_bytes_per_second);
  }
};

}  // namespace

absl::Status CheckCutHead(const plan::Plan& plan) {
  if (plan.model.labels > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss.head is cut, the head gives ", plan.model.labels,
                     " scores of a document and has no logits of tokens; take loss.head: auto"));
  }
  if (plan::HasAdapterOf(plan, model::Kind::kHead)) {
    return absl::InvalidArgumentError(
        "loss.head is cut, lora.target_modules adapts lm_head, whose adapter needs the logits of a "
        "chunk; take loss.head: chunked, or lora.modules_to_save: [lm_head]");
  }
  return absl::OkStatus();
}

int64_t LeastCutHeadBytes(const plan::Plan& plan) {
  const int64_t rows = plan::BatchExtents(plan).target_rows;
  const int64_t tiles = CeilDiv(plan.model.vocab_size, kCutTileColumns);
  const int64_t partials = std::min(rows, kCutPassRows) * tiles * kCutPartialBytes;
  const int64_t answers = plan.generation.sequences * plan::LogitsRowBytes(plan);
  const int64_t fixed =
      AlignedBytes(rows * kCutRowBytes) + (plan.device == DeviceKind::kCuda ? kCutProductBytes : 0);
  return std::max(fixed + AlignedBytes(std::max(CutTileBytes(plan), partials)),
                  AlignedBytes(answers));
}

int64_t CutHeadBytes(const plan::Plan& plan, int64_t wanted) {
  const int64_t least = LeastCutHeadBytes(plan);
  const int64_t tiles = CeilDiv(plan.model.vocab_size, kCutTileColumns);
  const int64_t usual = plan.device == DeviceKind::kCuda ? kUsualCutBytes : kUsualCpuCutBytes;
  const int64_t whole = least + (tiles - 1) * CutTileBytes(plan);
  return std::max(least, std::min(whole, wanted > 0 ? wanted : usual));
}

double HeadSeconds(const plan::Plan& plan) {
  const std::optional<plan::Storage> gradient = HeadGradientStorage(plan);
  const auto h = static_cast<double>(plan.model.hidden_size);
  const auto v = static_cast<double>(plan.model.vocab_size);
  const HeadTimes head{
      .flops_per_second = (plan.compute_dtype == Precision::kBfloat16 ? 1 : kFloat32Share) *
                          kRates.product_flops_per_second,
      .rows = static_cast<double>(plan.micro_batch_bins * plan.sequence_len),
      .matrix = h * v,
      .element = static_cast<double>(plan::ComputeBytes(plan)),
      .gradient = gradient ? static_cast<double>(plan::StorageBytes(*gradient, 1)) : 0};
  const double weight = head.element * head.matrix, logits = head.element * head.rows * v;
  if (plan.lm_head_panel_bytes > 0) {
    const double fixed = static_cast<double>(LeastCutHeadBytes(plan) - CutTileBytes(plan));
    const double panel = static_cast<double>(plan.lm_head_panel_bytes) - fixed;
    const double panels = std::max(1.0, logits / panel);
    return 2 * head.Product(head.rows, weight + logits) +
           head.Product(head.rows, weight + logits + panels * 8 * head.rows * h) +
           (gradient ? head.Product(head.rows, head.gradient * head.matrix + logits) : 0);
  }
  const double rows = std::min(head.rows, static_cast<double>(plan.lm_head_chunk_tokens));
  const double chunks = head.rows / rows, chunk = head.element * rows * v;
  const double of_chunk =
      2 * head.Product(rows, weight + chunk) + 2 * chunk / kRates.copy_bytes_per_second +
      (gradient ? head.Product(rows, 2 * head.gradient * head.matrix + chunk) : 0);
  return chunks * of_chunk;
}

}  // namespace coxswain::planner
