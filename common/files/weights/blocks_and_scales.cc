#include "common/files/weights/blocks_and_scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/weights/fp8_blocks.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

using Format = BlocksAndScales::Format;

constexpr int64_t kMxfp4Block = 32, kMxfp4Bytes = kMxfp4Block / 2;
constexpr int kNanScale = 255;
constexpr std::array<float, 16> kMxfp4Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                -2.0f, -3.0f, -4.0f, -6.0f};

// Two tensors of one matrix, for messages.
class Pair {
 public:
  Pair(const WeightFiles& files, const TensorInfo& codes, const TensorInfo& scales)
      : files_(files), codes_(codes), scales_(scales) {}

  absl::Status Refused(const std::string& expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat(Named(codes_), " and ", Named(scales_), ": ", expected));
  }
  absl::Status CheckInPlace() const {
    if (codes_.strides.empty() && scales_.strides.empty()) return absl::OkStatus();
    return Refused("one is a view with strides; save its contiguous()");
  }

 private:
  std::string Named(const TensorInfo& tensor) const {
    return absl::StrCat("tensor \"", tensor.name, "\" ", ShapeText(tensor.shape), " of ",
                        std::string(ElementName(tensor.dtype)), " in ", files_.PathOf(tensor));
  }

  const WeightFiles& files_;
  const TensorInfo& codes_;
  const TensorInfo& scales_;
};

absl::Status Missing(const WeightFiles& files, const TensorInfo& present,
                     const std::string& absent) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor \"", absent, "\" is missing beside \"", present.name, "\" ", ShapeText(present.shape),
      " of ", std::string(ElementName(present.dtype)), " in ", files.PathOf(present)));
}

// [experts, rows, cols] of a shape of two or three extents.
BlocksAndScales OfShape(Format format, const std::vector<int64_t>& shape) {
  BlocksAndScales found{.format = format};
  if (shape.size() == 3) found.experts = shape[0];
  found.rows = shape[shape.size() - 2];
  found.cols = shape.back();
  return found;
}

absl::StatusOr<BlocksAndScales> Mxfp4Of(const WeightFiles& files, const TensorInfo& blocks,
                                        const TensorInfo& scales) {
  const Pair pair(files, blocks, scales);
  RETURN_IF_ERROR(pair.CheckInPlace());
  std::vector<int64_t> expected = scales.shape;
  expected.push_back(kMxfp4Bytes);
  const bool ranks = scales.shape.size() == 2 || scales.shape.size() == 3;
  if (!ranks || blocks.shape != expected || blocks.dtype != ElementType::kU8 ||
      scales.dtype != ElementType::kU8) {
    return pair.Refused(
        "MXFP4 has blocks [experts, rows, cols / 32, 16] and scales [experts, rows, cols / 32], "
        "both of U8");
  }
  BlocksAndScales found = OfShape(Format::kMxfp4, scales.shape);
  found.cols *= kMxfp4Block;
  found.codes = &blocks;
  found.scales = &scales;
  return found;
}

absl::StatusOr<BlocksAndScales> Fp8Of(const WeightFiles& files, const TensorInfo& codes,
                                      const TensorInfo& scales) {
  const Pair pair(files, codes, scales);
  RETURN_IF_ERROR(pair.CheckInPlace());
  const size_t rank = codes.shape.size();
  std::vector<int64_t> expected = codes.shape;
  for (size_t d = rank - std::min<size_t>(rank, 2); d < rank; ++d) {
    expected[d] = Fp8Blocks(expected[d]);
  }
  const bool ranks = rank == 2 || rank == 3;
  if (!ranks || scales.shape != expected || codes.dtype != ElementType::kF8E4M3 ||
      scales.dtype != ElementType::kF32) {
    return pair.Refused(
        "FP8 in blocks of 128 x 128 has F8_E4M3 [rows, cols] and F32 [rows / 128, cols / 128], "
        "divided up");
  }
  BlocksAndScales found = OfShape(Format::kFp8, codes.shape);
  found.codes = &codes;
  found.scales = &scales;
  return found;
}

void CopyMxfp4(const BlocksAndScales& from, const ExpertRows& rows, float* out) {
  const Mxfp4Rows in = Mxfp4RowsOf(from, rows);
  const int64_t blocks = (rows.end - rows.begin) * (from.cols / kMxfp4Block);
  for (int64_t block = 0; block < blocks; ++block) {
    const int code = in.scales[block];
    const float scale =
        code == kNanScale ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, code - 127);
    for (int64_t i = 0; i < kMxfp4Bytes; ++i) {
      const int pair = in.codes[block * kMxfp4Bytes + i];
      *out++ = kMxfp4Values[static_cast<size_t>(pair & 15)] * scale;
      *out++ = kMxfp4Values[static_cast<size_t>(pair >> 4)] * scale;
    }
  }
}

void CopyFp8(const BlocksAndScales& from, const ExpertRows& rows, float* out) {
  const int64_t row_blocks = Fp8Blocks(from.rows), col_blocks = Fp8Blocks(from.cols);
  std::vector<float> scales(static_cast<size_t>(col_blocks));
  const size_t bytes = scales.size() * sizeof(float);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t place = (rows.expert * row_blocks + row / kFp8Block) * col_blocks;
    if (bytes > 0) std::memcpy(scales.data(), from.scales->data + place * 4, bytes);
    const uint8_t* const codes = from.codes->data + (rows.expert * from.rows + row) * from.cols;
    for (int64_t col = 0; col < from.cols; ++col) {
      *out++ = E4m3ToFloat(codes[col]) * scales[static_cast<size_t>(col / kFp8Block)];
    }
  }
}

}  // namespace

absl::StatusOr<std::optional<BlocksAndScales>> FindBlocksAndScales(const WeightFiles& files,
                                                                   const std::string& name) {
  const TensorInfo* const blocks = files.Find(name + "_blocks");
  const TensorInfo* const scales = files.Find(name + "_scales");
  if (blocks != nullptr && scales != nullptr) return Mxfp4Of(files, *blocks, *scales);
  if (blocks != nullptr) return Missing(files, *blocks, name + "_scales");
  if (scales != nullptr) return Missing(files, *scales, name + "_blocks");
  const TensorInfo* const weight = files.Find(name);
  const TensorInfo* const inverse = files.Find(name + kScalesOfFp8);
  if (weight != nullptr && inverse != nullptr) return Fp8Of(files, *weight, *inverse);
  if (weight != nullptr && weight->dtype == ElementType::kF8E4M3) {
    return Missing(files, *weight, name + kScalesOfFp8);
  }
  if (inverse != nullptr) return Missing(files, *inverse, name);
  return std::nullopt;
}

Mxfp4Rows Mxfp4RowsOf(const BlocksAndScales& from, const ExpertRows& rows) {
  const int64_t row = rows.expert * from.rows + rows.begin;
  return {.codes = from.codes->data + row * (from.cols / 2),
          .scales = from.scales->data + row * (from.cols / kMxfp4Block)};
}

absl::Status CopyRowsAsFloat(const BlocksAndScales& from, const ExpertRows& rows, float* out) {
  if (rows.expert < 0 || rows.expert >= from.experts || rows.begin < 0 || rows.begin > rows.end ||
      rows.end > from.rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"", from.codes->name, "\" has ", from.experts, " experts of ", from.rows,
        " rows, asked for rows [", rows.begin, ", ", rows.end, ") of expert ", rows.expert));
  }
  if (from.format == Format::kMxfp4) {
    CopyMxfp4(from, rows, out);
  } else {
    CopyFp8(from, rows, out);
  }
  return absl::OkStatus();
}

}  // namespace coxswain
