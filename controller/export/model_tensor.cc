#include "controller/export/model_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/element_type.h"
#include "common/model/files/file_rows.h"
#include "common/status_macros.h"

namespace coxswain::exports {
namespace {

struct LowRank {
  int64_t rows = 0, cols = 0, rank = 0;
};

// w [rows, cols] += scale * b [rows, r] a [r, cols], float32. Source: PEFT
// lora.Linear.get_delta_weight.
void AddProduct(const LowRank& extents, double scale, const std::vector<float>& a,
                const std::vector<float>& b, std::vector<float>* w) {
  const auto [rows, cols, r] = extents;
  std::vector<float> delta(cols);
  for (int64_t i = 0; i < rows; ++i) {
    std::fill(delta.begin(), delta.end(), 0.0f);
    for (int64_t k = 0; k < r; ++k) {
      const float factor = b[i * r + k];
      const float* row = &a[k * cols];
      for (int64_t j = 0; j < cols; ++j) delta[j] += factor * row[j];
    }
    float* out = w->data() + i * cols;
    for (int64_t j = 0; j < cols; ++j) out[j] += static_cast<float>(scale) * delta[j];
  }
}

void AddLowRankProduct(const ModelTensor& tensor, double scale, std::vector<float>* w) {
  const int64_t rows = tensor.parameter->rows, cols = tensor.parameter->cols;
  // An embedding's are A [rows, r] and B [cols, r].
  const bool embedding = model::IsEmbedding(*tensor.parameter);
  const int64_t r = tensor.lora_a->shape[embedding ? 1 : 0];
  std::vector<float> a(embedding ? rows * r : r * cols), b(embedding ? cols * r : rows * r);
  // Sizes and dtypes were checked when the tensor list was made.
  (void)CopyAsFloat(*tensor.lora_a, a.data());
  (void)CopyAsFloat(*tensor.lora_b, b.data());
  if (embedding) {
    std::swap(a, b);
    model::Transpose(cols, r, &a);
  }
  AddProduct({.rows = rows, .cols = cols, .rank = r}, scale, a, b, w);
}

// Row i of w [rows, cols] gets length m_i. Source: PEFT DoraLinearLayer and lora.Linear.merge.
void ScaleRows(const ModelTensor& tensor, std::vector<float>* w) {
  const int64_t rows = tensor.parameter->rows, cols = tensor.parameter->cols;
  std::vector<float> magnitude(rows);
  (void)CopyAsFloat(*tensor.magnitude, magnitude.data());
  for (int64_t i = 0; i < rows; ++i) {
    float* row = w->data() + i * cols;
    double squares = 0;
    for (int64_t j = 0; j < cols; ++j) squares += static_cast<double>(row[j]) * row[j];
    const auto factor = static_cast<float>(magnitude[i] / std::sqrt(squares));
    for (int64_t j = 0; j < cols; ++j) row[j] *= factor;
  }
}

absl::Status StoreAs(ElementType dtype, const std::vector<float>& values, uint8_t* out) {
  if (dtype == ElementType::kF32) {
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    return absl::OkStatus();
  }
  if (dtype != ElementType::kBF16 && dtype != ElementType::kF16) {
    return absl::UnimplementedError(absl::StrCat("cannot export dtype ",
                                                 std::string(ElementName(dtype)),
                                                 "; set export.dtype to float32 or bfloat16"));
  }
  auto convert = dtype == ElementType::kBF16 ? FloatToBf16 : FloatToHalf;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = convert(values[i]);
    std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
  }
  return absl::OkStatus();
}

// Adds scale B_e A_e of expert `number` to its matrix [out, in].
absl::Status AddExpertAdapter(const ModelTensor& tensor, double scale, int64_t number,
                              std::vector<float>* matrix) {
  const model::Parameter& parameter = *tensor.parameter;
  const int64_t in = parameter.cols, out = parameter.rows / parameter.batch;
  const int64_t rank = tensor.lora_b->shape[1];
  std::vector<float> a(rank * in), b(out * rank);
  RETURN_IF_ERROR(CopyRangeAsFloat(*tensor.lora_a, number * rank * in, rank * in, a.data()));
  RETURN_IF_ERROR(CopyRangeAsFloat(*tensor.lora_b, number * out * rank, out * rank, b.data()));
  AddProduct({.rows = out, .cols = in, .rank = rank}, scale, a, b, matrix);
  return absl::OkStatus();
}

// A file of a stack, from the matrices that were trained, or from the base's and their adapters.
absl::Status FillStacked(const ModelTensor& tensor, double lora_scale, uint8_t* out) {
  const model::StackedFile& file = *tensor.stacked;
  const model::Parameter& parameter = *tensor.parameter;
  const int64_t of_memory = parameter.elements() / parameter.batch, of_file = file.rows * file.cols;
  std::vector<float> matrix(of_memory), values(tensor.elements());
  if (tensor.from_base && !tensor.blocks.has_value()) {
    RETURN_IF_ERROR(CopyAsFloat(tensor.weights, values.data()));
  }
  for (int64_t i = 0; i < tensor.elements() / of_file; ++i) {
    const int64_t number = tensor.matrix + i;
    float* of_matrix = values.data() + i * of_file;
    if (tensor.blocks.has_value()) {
      RETURN_IF_ERROR(CopyRowsAsFloat(*tensor.blocks, {i, 0, tensor.blocks->rows}, of_matrix));
      model::ToMemoryMatrix(model::ByOutputs(file), of_matrix, matrix.data());
    } else if (tensor.from_base) {
      model::ToMemoryMatrix(file, of_matrix, matrix.data());
    } else {
      RETURN_IF_ERROR(
          CopyRangeAsFloat(tensor.weights, number * of_memory, of_memory, matrix.data()));
    }
    if (tensor.lora_a != nullptr) {
      RETURN_IF_ERROR(AddExpertAdapter(tensor, lora_scale, number, &matrix));
    }
    model::ToFileMatrix(file, matrix.data(), of_matrix);
  }
  return StoreAs(tensor.dtype, values, out);
}

}  // namespace

absl::Status FillTensor(const ModelTensor& tensor, double lora_scale, uint8_t* out) {
  if (tensor.stacked.has_value()) return FillStacked(tensor, lora_scale, out);
  const bool ordered = tensor.from_base || tensor.file_rows.empty();
  const bool plain = !tensor.packed.has_value() && !tensor.blocks.has_value();
  const bool unchanged =
      plain && tensor.lora_a == nullptr && tensor.weights.dtype == tensor.dtype && ordered;
  if (unchanged) {
    CopyBytes(tensor.weights, out);
    return absl::OkStatus();
  }
  std::vector<float> values(tensor.elements());
  if (tensor.packed.has_value()) {
    CopyAsFloat(*tensor.packed, values.data());
  } else if (tensor.blocks.has_value()) {
    RETURN_IF_ERROR(CopyRowsAsFloat(*tensor.blocks, {0, 0, tensor.blocks->rows}, values.data()));
  } else {
    RETURN_IF_ERROR(CopyAsFloat(tensor.weights, values.data()));
  }
  if (tensor.parameter == nullptr) return StoreAs(tensor.dtype, values, out);
  const int64_t cols = tensor.parameter->cols;
  if (tensor.from_base) model::ToMemoryOrder(tensor.file_rows, cols, &values);
  if (tensor.lora_a != nullptr) AddLowRankProduct(tensor, lora_scale, &values);
  if (tensor.magnitude != nullptr) ScaleRows(tensor, &values);
  model::ToFileOrder(tensor.file_rows, cols, &values);
  return StoreAs(tensor.dtype, values, out);
}

absl::StatusOr<std::vector<float>> ValuesOf(ModelTensor tensor, double lora_scale) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  tensor.dtype = ElementType::kF32;
  RETURN_IF_ERROR(FillTensor(tensor, lora_scale, reinterpret_cast<uint8_t*>(values.data())));
  return values;
}

}  // namespace coxswain::exports
