// Weights of four and eight bits into bfloat16, as a block's slot is filled: the widest linears of
// a model of 7 and of 65 billion.
#include "bench/kernels/cuda/harness.h"
#include "kernels/quantize/int8_rows.h"
#include "kernels/quantize/mxfp4.h"
#include "kernels/quantize/nf4.h"

namespace coxswain::kernels::bench {
namespace {

void BenchNf4(Bench* bench, int64_t rows, int64_t cols, bool twice) {
  const int64_t elements = rows * cols, blocks = Nf4Blocks(elements);
  bench->Time({.name = twice ? "nf4 dequantize, doubly quantised" : "nf4 dequantize",
               .extents = Extents(rows, cols),
               .bytes = 2.5 * static_cast<double>(elements) +
                        (twice ? 1.0 : 4.0) * static_cast<double>(blocks),
               .make = [=](Memory* memory) -> Launch {
                 Nf4DequantizeArgs args{.dtype = kBF16, .elements = elements};
                 auto* const codes = static_cast<uint8_t*>(memory->BFloat16(elements / 4));
                 args.codes = codes;
                 args.out = memory->BFloat16(elements);
                 if (twice) {
                   args.absmax_codes =
                       static_cast<const uint8_t*>(memory->BFloat16(blocks / 2 + 1));
                   args.constants = memory->Floats(Nf4Constants(elements));
                 } else {
                   args.absmax = memory->Floats(blocks);
                 }
                 return [=](Stream* s) { Nf4Dequantize(args, s); };
               }});
}

void BenchMxfp4(Bench* bench, int64_t rows, int64_t cols) {
  const int64_t elements = rows * cols, blocks = Mxfp4Blocks(elements);
  bench->Time({.name = "mxfp4 dequantize",
               .extents = Extents(rows, cols),
               .bytes = 2.5 * static_cast<double>(elements) + static_cast<double>(blocks),
               .make = [=](Memory* memory) -> Launch {
                 const Mxfp4DequantizeArgs args{
                     .dtype = kBF16,
                     .elements = elements,
                     .codes = static_cast<const uint8_t*>(memory->BFloat16(elements / 4)),
                     .scales = static_cast<const uint8_t*>(memory->BFloat16(blocks / 2 + 1)),
                     .out = memory->BFloat16(elements)};
                 return [=](Stream* s) { Mxfp4Dequantize(args, s); };
               }});
}

void BenchInt8(Bench* bench, int64_t rows, int64_t cols) {
  bench->Time({.name = "int8 dequantize",
               .extents = Extents(rows, cols),
               .bytes = 3.0 * static_cast<double>(rows * cols) + 4.0 * static_cast<double>(rows),
               .make = [=](Memory* memory) -> Launch {
                 const Int8DequantizeRowsArgs args{
                     .dtype = kBF16,
                     .rows = rows,
                     .cols = cols,
                     .codes = static_cast<const int8_t*>(memory->BFloat16(rows * cols / 2)),
                     .absmax = memory->Floats(rows),
                     .out = memory->BFloat16(rows * cols)};
                 return [=](Stream* s) { Int8DequantizeRows(args, s); };
               }});
}

}  // namespace

void BenchQuantized(Bench* bench) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{18944, 3584}, {22016, 8192}}) {
    BenchNf4(bench, rows, cols, /*twice=*/false);
    BenchNf4(bench, rows, cols, /*twice=*/true);
    BenchInt8(bench, rows, cols);
    BenchMxfp4(bench, rows, cols);
  }
  // The gates and ups of 32 experts of gpt-oss-20b.
  BenchMxfp4(bench, 32 * 5760, 2880);
}

}  // namespace coxswain::kernels::bench
