#include "common/plan/quantize_pieces.h"

#include <algorithm>

#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;

int64_t Padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

QuantizePieces::QuantizePieces(const model::Parameter& parameter, Storage storage) {
  const bool rows = storage == Storage::kInt8;
  const bool nf4 = storage == Storage::kNf4 || storage == Storage::kNf4Double;
  const int64_t blocks = nf4 ? kernels::Nf4Blocks(parameter.elements()) : 0;
  elements = rows ? std::max<int64_t>(1, kPieceElements / parameter.cols) * parameter.cols
                  : kPieceElements;
  elements = std::min(elements, parameter.elements());
  absmax = Padded(elements * 4);
  absmax_codes = absmax + Padded(blocks * 4);
  codes = absmax_codes + Padded(storage == Storage::kNf4Double ? blocks : 0);
  scales = codes + Padded(StorageBytes(storage, elements));
  bytes = scales + Padded(storage == Storage::kMxfp4 ? ScaleBytes(storage, elements) : 0);
}

int64_t QuantizeScratchBytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    const Storage storage = StorageOf(plan, parameter).weights;
    if (IsQuantized(storage)) bytes = std::max(bytes, QuantizePieces(parameter, storage).bytes);
  }
  return bytes;
}

}  // namespace coxswain::plan
