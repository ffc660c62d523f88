// Row norms through two products of rank r; sums over columns in double.
#include "kernels/lora/dora.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

int64_t LargestMember(const LoraLinearSpec& spec) {
  int64_t largest = 0;
  for (const LoraMember& member : spec.members) largest = std::max(largest, member.out_features);
  return largest;
}

// One adapted linear of a packed row, and its products.
struct Member {
  int64_t rows, rank;
  double scale;
  const float* b;          // [rows, rank]
  const float* projected;  // W A^T [rows, rank]
  const float* gram;       // A A^T [rank, rank]
};

double NormOfRow(const Member& member, int64_t j, double square) {
  const float* b = member.b + j * member.rank;
  const float* projected = member.projected + j * member.rank;
  double cross = 0.0, own = 0.0;
  for (int64_t k = 0; k < member.rank; ++k) {
    cross += static_cast<double>(b[k]) * static_cast<double>(projected[k]);
    own += static_cast<double>(b[k]) *
           static_cast<double>(cpu::Dot(member.gram + k * member.rank, b, member.rank));
  }
  const double s = member.scale;
  return std::sqrt(std::max(0.0, square + 2.0 * s * cross + s * s * own));
}

void MemberFactors(const DoraFactorsArgs& args, int64_t j) {
  const LoraLinearSpec& spec = args.spec;
  const LoraMember& lora = spec.members[static_cast<size_t>(j)];
  const int64_t in = spec.in_features, rank = spec.rank, offset = lora.column_offset;
  const float* a = static_cast<const float*>(args.a) + j * rank * in;
  const float* w = static_cast<const float*>(args.w) + offset * in;
  float* projected = static_cast<float*>(args.workspace.data);
  float* gram = projected + cpu::AlignedFloatBytes(LargestMember(spec) * rank) / 4;
  cpu::Sgemm({.m = lora.out_features,
              .n = rank,
              .k = in,
              .alpha = 1.0f,
              .a = {w, in},
              .b = {a, in, true},
              .beta = 0.0f,
              .c = projected,
              .stride_c = rank});
  cpu::Sgemm({.m = rank,
              .n = rank,
              .k = in,
              .alpha = 1.0f,
              .a = {a, in},
              .b = {a, in, true},
              .beta = 0.0f,
              .c = gram,
              .stride_c = rank});
  const Member member{
      lora.out_features, rank, static_cast<double>(spec.scale), static_cast<const float*>(lora.b),
      projected,         gram};
  const float* magnitude = static_cast<const float*>(lora.magnitude);
  cpu::ParallelFor(member.rows, rank * rank, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double norm = NormOfRow(member, i, static_cast<double>(args.squares[offset + i]));
      args.norm[offset + i] = static_cast<float>(norm);
      args.factor[offset + i] = static_cast<float>(static_cast<double>(magnitude[i]) / norm);
    }
  });
}

COXSWAIN_VECTORIZE void ScaleRow(const float* u, const float* factor, const float* bias, float* y,
                                 int64_t n) {
  if (bias == nullptr) {
    for (int64_t j = 0; j < n; ++j) y[j] = u[j] * factor[j];
  } else {
    for (int64_t j = 0; j < n; ++j) y[j] = u[j] * factor[j] + bias[j];
  }
}

// sums[j] += dy_j u_j; dy becomes du.
COXSWAIN_VECTORIZE void BackwardRow(const float* u, const float* factor, float* dy, double* sums,
                                    int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    sums[j] += static_cast<double>(dy[j]) * static_cast<double>(u[j]);
    dy[j] *= factor[j];
  }
}

void MemberBackward(const DoraBackwardArgs& args, const LoraMember& member) {
  constexpr int64_t kColumns = 256;  // a thread's strip, so that its sums stay in cache
  const LoraLinearSpec& spec = args.spec;
  const int64_t offset = member.column_offset, columns = member.out_features;
  double* sums = static_cast<double*>(args.workspace.data);
  float* dmagnitude = static_cast<float*>(member.dmagnitude);
  std::fill_n(sums, columns, 0.0);
  const int64_t strips = (columns + kColumns - 1) / kColumns;
  cpu::ParallelFor(strips, args.rows * kColumns, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumns, last = std::min(end * kColumns, columns);
    for (int64_t t = 0; t < args.rows; ++t) {
      const int64_t at = t * spec.ldy + offset + first;
      BackwardRow(static_cast<const float*>(args.u) + at, args.factor + offset + first,
                  static_cast<float*>(args.dy) + at, sums + first, last - first);
    }
    for (int64_t i = first; i < last; ++i) {
      const double norm = static_cast<double>(args.norm[offset + i]);
      dmagnitude[i] += static_cast<float>(sums[i] / norm);
    }
  });
}

}  // namespace

bool DoraSupports(const LoraLinearSpec& spec) {
  return LoraLinearSupports(spec) && spec.dropout_rate == 0.0f;
}

void DoraRowSquares(const DoraRowSquaresArgs& args, Stream* stream) {
  cpu::RequireSupported(args.dtype == DType::kFloat32, "DoraRowSquares");
  const float* w = static_cast<const float*>(args.w);
  cpu::ParallelFor(args.rows, args.columns, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const float* row = w + j * args.columns;
      args.squares[j] = cpu::Dot(row, row, args.columns);
    }
  });
}

int64_t DoraFactorsWorkspaceBytes(const LoraLinearSpec& spec) {
  return cpu::AlignedFloatBytes(LargestMember(spec) * spec.rank) +
         cpu::AlignedFloatBytes(spec.rank * spec.rank);
}

void DoraFactors(const DoraFactorsArgs& args, Stream* stream) {
  cpu::RequireSupported(DoraSupports(args.spec), "DoraFactors");
  cpu::RequireWorkspace(args.workspace, DoraFactorsWorkspaceBytes(args.spec), "DoraFactors");
  std::fill_n(args.norm, args.spec.ldy, 1.0f);
  std::fill_n(args.factor, args.spec.ldy, 1.0f);
  const auto members = static_cast<int64_t>(args.spec.members.size());
  for (int64_t j = 0; j < members; ++j) MemberFactors(args, j);
}

void DoraForward(const DoraForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(DoraSupports(args.spec), "DoraForward");
  const int64_t columns = args.spec.ldy;
  cpu::ParallelFor(args.rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      ScaleRow(static_cast<const float*>(args.u) + t * columns, args.factor,
               static_cast<const float*>(args.bias), static_cast<float*>(args.y) + t * columns,
               columns);
    }
  });
}

int64_t DoraBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return cpu::AlignedFloatBytes(2 * LargestMember(spec));
}

void DoraBackward(const DoraBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(DoraSupports(args.spec), "DoraBackward");
  cpu::RequireWorkspace(args.workspace, DoraBackwardWorkspaceBytes(args.spec, args.rows),
                        "DoraBackward");
  for (const LoraMember& member : args.spec.members) MemberBackward(args, member);
}

}  // namespace coxswain::kernels
