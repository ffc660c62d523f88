// Rows copied in two pieces (kernels/tensors/rows.h) by the copy engine's pitched copies,
// which a graph records as it records kernels.
#include "kernels/tensors/rows.h"

#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

// One of the two pieces: `rows` times `bytes`.
struct Piece {
  void* to;
  int64_t to_pitch;
  const void* from;
  int64_t from_pitch, bytes, rows;
};

void CopyPiece(const Piece& piece, Stream* stream) {
  if (piece.rows == 0) return;
  cuda::CheckCuda(
      cudaMemcpy2DAsync(piece.to, static_cast<size_t>(piece.to_pitch), piece.from,
                        static_cast<size_t>(piece.from_pitch), static_cast<size_t>(piece.bytes),
                        static_cast<size_t>(piece.rows), cudaMemcpyDeviceToDevice,
                        cuda::Handle(stream)),
      "cudaMemcpy2DAsync");
}

// Bytes of the first piece of a row and of the second.
struct Bytes {
  int64_t first, second;
};

Bytes BytesOf(const SplitRowsSpec& spec, int64_t rows) {
  cuda::RequireSupported(SplitRowsSupports(spec), "SplitRows");
  cuda::RequireExtent(rows, "SplitRows", "rows");
  return {spec.first * DTypeBytes(spec.dtype), spec.second * DTypeBytes(spec.dtype)};
}

}  // namespace

bool SplitRowsSupports(const SplitRowsSpec& spec) { return spec.first > 0 && spec.second > 0; }

void SplitRowsForward(const SplitRowsForwardArgs& args, Stream* stream) {
  const auto [first, second] = BytesOf(args.spec, args.rows);
  const char* x = static_cast<const char*>(args.x);
  CopyPiece({args.first, first, x, first + second, first, args.rows}, stream);
  CopyPiece({args.second, second, x + first, first + second, second, args.rows}, stream);
}

void SplitRowsBackward(const SplitRowsBackwardArgs& args, Stream* stream) {
  const auto [first, second] = BytesOf(args.spec, args.rows);
  char* dx = static_cast<char*>(args.dx);
  CopyPiece({dx, first + second, args.dfirst, first, first, args.rows}, stream);
  CopyPiece({dx + first, first + second, args.dsecond, second, second, args.rows}, stream);
}

}  // namespace coxswain::kernels
