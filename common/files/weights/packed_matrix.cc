#include "common/files/weights/packed_matrix.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace coxswain {
namespace {

constexpr int64_t kBlock = 64, kGroup = 256;
constexpr int64_t kLargestExtent = (int64_t{1} << 31) - 1;  // keeps products inside int64

// The bytes of what is packed are read in place.
absl::Status CheckInPlace(const TensorInfo& tensor) {
  if (tensor.strides.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", tensor.name, "\" is a view with strides; save its contiguous()"));
}

// Finds tensors of one matrix and checks each.
class Parts {
 public:
  Parts(const WeightFiles& files, PackedMatrix* out) : files_(files), out_(out) {}

  absl::StatusOr<const TensorInfo*> Take(const std::string& name, ElementType dtype,
                                         int64_t elements) {
    const TensorInfo* tensor = files_.Find(name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\" is missing"));
    }
    if (tensor->dtype != dtype || tensor->elements() != elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", name, "\" has ", tensor->elements(), " elements of ",
                       std::string(ElementName(tensor->dtype)), ", the format has ", elements,
                       " of ", std::string(ElementName(dtype))));
    }
    RETURN_IF_ERROR(CheckInPlace(*tensor));
    out_->tensors.push_back(name);
    return tensor;
  }

  absl::StatusOr<std::vector<float>> Floats(const std::string& name, int64_t elements) {
    ASSIGN_OR_RETURN(const TensorInfo* tensor, Take(name, ElementType::kF32, elements));
    std::vector<float> values(static_cast<size_t>(elements));
    std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
    return values;
  }

 private:
  const WeightFiles& files_;
  PackedMatrix* const out_;
};

struct Nf4State {
  std::vector<int64_t> shape;
  bool nested = false;
  double offset = 0;
};

absl::StatusOr<Nf4State> ReadNf4State(const TensorInfo& tensor) {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\": ", what));
  };
  RETURN_IF_ERROR(CheckInPlace(tensor));
  const auto json = nlohmann::json::parse(tensor.data, tensor.data + tensor.bytes, nullptr, false);
  if (!json.is_object()) return bad("not a JSON object");
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : -1.0;
  };
  if (number("blocksize") != kBlock) return bad("blocksize is not 64");
  Nf4State state;
  state.nested = json.contains("nested_offset");
  if (state.nested) {
    if (number("nested_blocksize") != kGroup) return bad("nested_blocksize is not 256");
    if (!json["nested_offset"].is_number()) return bad("nested_offset is not a number");
    state.offset = number("nested_offset");
  }
  const auto shape = json.find("shape");
  if (shape == json.end() || !shape->is_array()) return bad("no shape");
  for (const auto& extent : *shape) {
    const int64_t size = extent.is_number_integer() ? extent.get<int64_t>() : 0;
    if (size < 1 || size > kLargestExtent) return bad("shape is not one");
    state.shape.push_back(size);
  }
  if (state.shape.size() != 2) return bad("shape has not two extents");
  return state;
}

absl::Status ReadNf4(const std::string& name, const TensorInfo& tensor, Parts& parts,
                     PackedMatrix* out) {
  ASSIGN_OR_RETURN(const Nf4State state, ReadNf4State(tensor));
  const int64_t elements = state.shape[0] * state.shape[1];
  const int64_t blocks = (elements + kBlock - 1) / kBlock;
  out->shape = state.shape;
  out->format = state.nested ? Quantization::kNf4Double : Quantization::kNf4;
  out->tensors.push_back(tensor.name);
  ASSIGN_OR_RETURN(const TensorInfo* codes, parts.Take(name, ElementType::kU8, (elements + 1) / 2));
  out->codes = codes->data;
  const ElementType dtype = state.nested ? ElementType::kU8 : ElementType::kF32;
  ASSIGN_OR_RETURN(const TensorInfo* scales, parts.Take(name + ".absmax", dtype, blocks));
  out->scales = scales->data;
  ASSIGN_OR_RETURN(out->map, parts.Floats(name + ".quant_map", 16));
  if (!state.nested) return absl::OkStatus();
  out->constants = {static_cast<float>(state.offset)};
  ASSIGN_OR_RETURN(const std::vector<float> groups,
                   parts.Floats(name + ".nested_absmax", (blocks + kGroup - 1) / kGroup));
  out->constants.insert(out->constants.end(), groups.begin(), groups.end());
  ASSIGN_OR_RETURN(out->scale_map, parts.Floats(name + ".nested_quant_map", 256));
  return absl::OkStatus();
}

float Absmax(const PackedMatrix& matrix, int64_t block) {
  if (matrix.format == Quantization::kNf4) {
    float absmax = 0;
    std::memcpy(&absmax, matrix.scales + block * 4, 4);
    return absmax;
  }
  const float group = matrix.constants[static_cast<size_t>(1 + block / kGroup)];
  const float scaled = matrix.scale_map[matrix.scales[block]] * group;
  return scaled + matrix.constants[0];
}

}  // namespace

void CopyAsFloat(const PackedMatrix& matrix, float* out) {
  const int64_t rows = matrix.shape[0], cols = matrix.shape[1];
  if (matrix.format == Quantization::kInt8) {
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto code = static_cast<float>(static_cast<int8_t>(matrix.codes[i]));
      const float scaled = code * matrix.constants[static_cast<size_t>(i / cols)];
      out[i] = scaled * (1.0f / 127.0f);
    }
    return;
  }
  float absmax = 0;
  for (int64_t i = 0; i < rows * cols; ++i) {
    if (i % kBlock == 0) absmax = Absmax(matrix, i / kBlock);
    const int code = matrix.codes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
    out[i] = matrix.map[static_cast<size_t>(code)] * absmax;
  }
}

absl::StatusOr<std::optional<PackedMatrix>> FindPackedMatrix(const WeightFiles& files,
                                                             const std::string& name) {
  const TensorInfo* weight = files.Find(name);
  if (weight == nullptr ||
      (weight->dtype != ElementType::kU8 && weight->dtype != ElementType::kI8)) {
    return std::nullopt;
  }
  RETURN_IF_ERROR(CheckInPlace(*weight));
  PackedMatrix matrix;
  Parts parts(files, &matrix);
  if (const TensorInfo* state = files.Find(name + ".quant_state.bitsandbytes__nf4")) {
    RETURN_IF_ERROR(ReadNf4(name, *state, parts, &matrix));
    return matrix;
  }
  if (weight->dtype != ElementType::kI8 || weight->shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", name, "\" of ", std::string(ElementName(weight->dtype)),
                     " is not quantised in nf4 or int8 of bitsandbytes"));
  }
  matrix.format = Quantization::kInt8;
  matrix.shape = weight->shape;
  matrix.codes = weight->data;
  matrix.tensors.push_back(name);
  const std::string module(absl::StripSuffix(name, "weight"));
  ASSIGN_OR_RETURN(matrix.constants, parts.Floats(module + "SCB", weight->shape[0]));
  if (files.Find(module + "weight_format") != nullptr) {
    matrix.tensors.push_back(module + "weight_format");
  }
  return matrix;
}

}  // namespace coxswain
