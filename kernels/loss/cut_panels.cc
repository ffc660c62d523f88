// A panel is as wide as the workspace allows, in whole tiles of columns; all but the last one are
// equal. dW of a range of the vocabulary is complete with its panel: it is written once. dx is
// summed over the panels, in their order. Products of a panel: 4 with the logits of forward and
// backward, so 8 N H V operations, two thirds of which a head that keeps its logits does too.
#include "kernels/loss/cut_panels.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/products/gemm.h"
#include "kernels/products/summed_product.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kProductBytes = int64_t{8} << 20;
constexpr int64_t kAlignment = 256;
// Rows of a pass of forward over tiles, at least.
constexpr int64_t kLeastRows = 256;

int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
int64_t TilesOf(int64_t columns) { return (columns + kCutTileColumns - 1) / kCutTileColumns; }
int64_t BytesOfProducts() { return std::min(GemmWorkspaceBytes(), kProductBytes); }

GemmSpec ProductSpec(const CutCrossEntropySpec& spec, DType output, bool transpose_a,
                     bool transpose_b) {
  return {.dtype = spec.dtype,
          .output_dtype = output,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b};
}

const char* RowsFrom(const CutCrossEntropySpec& spec, const void* weight, int64_t first) {
  return static_cast<const char*>(weight) + first * spec.hidden * DTypeBytes(spec.dtype);
}

// Calls fn(panel) for every panel, in order.
template <typename Fn>
void ForPanels(const CutCrossEntropySpec& spec, int64_t rows, const CutSpace& space, const Fn& fn) {
  const int64_t tile_bytes = rows * kCutTileColumns * DTypeBytes(spec.dtype);
  const int64_t tiles = TilesOf(spec.vocab), most = space.panel.bytes / tile_bytes;
  const int64_t panels = (tiles + most - 1) / most;
  const int64_t columns = (tiles + panels - 1) / panels * kCutTileColumns;
  for (int64_t first = 0; first < spec.vocab; first += columns) {
    fn(CutPanel{.first = first,
                .columns = std::min(columns, spec.vocab - first),
                .values = space.panel.data,
                .ld = columns});
  }
}

void MakeLogits(const CutCrossEntropySpec& spec, int64_t rows, const void* x, const void* weight,
                const CutSpace& space, const CutPanel& panel, Stream* stream) {
  Gemm({.spec = ProductSpec(spec, spec.dtype, false, true),
        .m = rows,
        .n = panel.columns,
        .k = spec.hidden,
        .alpha = spec.logit_scale,
        .a = x,
        .lda = spec.hidden,
        .b = RowsFrom(spec, weight, panel.first),
        .ldb = spec.hidden,
        .c = panel.values,
        .ldc = panel.ld,
        .workspace = space.products},
       stream);
}

void AddToInput(const CutCrossEntropyBackwardArgs& args, const CutSpace& space,
                const CutPanel& panel, Stream* stream) {
  const CutCrossEntropySpec& spec = args.spec;
  Gemm({.spec = ProductSpec(spec, DType::kFloat32, false, false),
        .m = args.rows,
        .n = spec.hidden,
        .k = panel.columns,
        .alpha = spec.logit_scale,
        .a = panel.values,
        .lda = panel.ld,
        .b = RowsFrom(spec, args.weight, panel.first),
        .ldb = spec.hidden,
        .beta = panel.first == 0 ? 0.0f : 1.0f,
        .c = args.dx,
        .ldc = spec.hidden,
        .workspace = space.products},
       stream);
}

void WriteWeight(const CutCrossEntropyBackwardArgs& args, const CutSpace& space,
                 const CutPanel& panel, Stream* stream) {
  const CutCrossEntropySpec& spec = args.spec;
  const int64_t first = panel.first * spec.hidden;
  const GemmArgs product{
      .spec = ProductSpec(spec, spec.weight_gradient_dtype, true, false),
      .m = panel.columns,
      .n = spec.hidden,
      .k = args.rows,
      .alpha = spec.logit_scale,
      .a = panel.values,
      .lda = panel.ld,
      .b = args.x,
      .ldb = spec.hidden,
      .beta = args.accumulate ? 1.0f : 0.0f,
      .c = static_cast<char*>(args.dweight) + first * DTypeBytes(spec.weight_gradient_dtype),
      .ldc = spec.hidden,
      .workspace = space.products};
  if (args.sum.mode == GradientSumMode::kNearest) return Gemm(product, stream);
  SummedProduct({.product = product, .sum = args.sum.From(first), .term = args.term}, stream);
}

template <typename Args>
bool Validate(const Args& args, const char* op) {
  const auto fail = [op](const std::string& what) {
    throw std::invalid_argument(std::string(op) + ": " + what);
  };
  if (!CutCrossEntropySupports(args.spec)) fail("this spec is not supported");
  if (args.rows < 0) fail("rows is " + std::to_string(args.rows) + ", must not be negative");
  const int64_t least = CutCrossEntropyWorkspaceBytes(args.spec, args.rows);
  if (args.workspace.bytes < least || (least > 0 && args.workspace.data == nullptr)) {
    fail("workspace of " + std::to_string(args.workspace.bytes) + " bytes, needs " +
         std::to_string(least));
  }
  return args.rows > 0;
}

}  // namespace

int64_t CutCrossEntropyWorkspaceBytes(const CutCrossEntropySpec& spec, int64_t rows) {
  if (rows <= 0) return 0;
  const int64_t tile = rows * kCutTileColumns * DTypeBytes(spec.dtype);
  const int64_t partials = std::min(rows, kLeastRows) * TilesOf(spec.vocab) * kCutPartialBytes;
  return Align(rows * kCutRowBytes) + BytesOfProducts() + Align(std::max(tile, partials));
}

int64_t CutCrossEntropyUsualBytes(const CutCrossEntropySpec& spec, int64_t rows) {
  const int64_t least = CutCrossEntropyWorkspaceBytes(spec, rows);
  const int64_t tile = rows * kCutTileColumns * DTypeBytes(spec.dtype);
  const int64_t more = (TilesOf(spec.vocab) - 1) * tile;
  return std::max(least, std::min(least + more, kCutCrossEntropyBytes));
}

CutSpace CutSpaceOf(int64_t rows, const Workspace& workspace) {
  char* const data = static_cast<char*>(workspace.data);
  const int64_t products = Align(rows * kCutRowBytes), panel = products + BytesOfProducts();
  return {.rows = data,
          .products = {.data = data + products, .bytes = BytesOfProducts()},
          .panel = {.data = data + panel, .bytes = workspace.bytes - panel}};
}

bool ValidateCut(const CutCrossEntropyForwardArgs& args) {
  return Validate(args, "CutCrossEntropyForward");
}
bool ValidateCut(const CutCrossEntropyBackwardArgs& args) {
  return Validate(args, "CutCrossEntropyBackward");
}

void PlainCutForward(const CutCrossEntropyForwardArgs& args, Stream* stream) {
  const CutSpace space = CutSpaceOf(args.rows, args.workspace);
  ForPanels(args.spec, args.rows, space, [&](const CutPanel& panel) {
    MakeLogits(args.spec, args.rows, args.x, args.weight, space, panel, stream);
    AddCutPanel(args, space, panel, stream);
  });
}

void PlainCutGradient(const CutCrossEntropyBackwardArgs& args, const CutSpace& space,
                      const CutPanel& panel, Stream* stream) {
  MakeLogits(args.spec, args.rows, args.x, args.weight, space, panel, stream);
  ReplaceCutPanel(args, panel, stream);
}

void CutGradients(const CutCrossEntropyBackwardArgs& args, FillCutPanel fill, Stream* stream) {
  const CutSpace space = CutSpaceOf(args.rows, args.workspace);
  ForPanels(args.spec, args.rows, space, [&](const CutPanel& panel) {
    fill(args, space, panel, stream);
    if (args.dweight != nullptr) WriteWeight(args, space, panel, stream);
    if (args.dx != nullptr) AddToInput(args, space, panel, stream);
  });
}

}  // namespace coxswain::kernels
