#include "common/plan/storage.h"

#include <algorithm>

#include "common/plan/extents.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {
namespace {

Storage StorageIn(Precision precision) {
  return precision == Precision::kBfloat16 ? Storage::kBfloat16 : Storage::kFloat32;
}

// Of a format in which something is quantised.
Storage StorageIn(Quantization format) {
  switch (format) {
    case Quantization::kNf4:
      return Storage::kNf4;
    case Quantization::kNf4Double:
      return Storage::kNf4Double;
    case Quantization::kInt8:
      return Storage::kInt8;
    default:
      return Storage::kMxfp4;
  }
}

// Matrices of the base model take the plan's gradient dtype. Vectors, a head of scores, a tied
// embedding, which two products add to, and adapters take float32.
Storage GradientOf(const Plan& plan, const model::Parameter& parameter) {
  const bool tied = model::IsEmbedding(parameter) && plan.model.tie_embeddings;
  const bool scores = model::IsHead(parameter) && plan.model.labels > 0;
  const bool precise = parameter.cols == 1 || tied || scores || model::IsAdapter(parameter);
  return precise ? Storage::kFloat32 : StorageIn(plan.gradient_dtype);
}

}  // namespace

bool IsQuantized(Storage storage) {
  return storage == Storage::kNf4 || storage == Storage::kNf4Double || storage == Storage::kInt8 ||
         storage == Storage::kMxfp4;
}

bool IsQuantizedIn(Quantization format, const model::Parameter& parameter) {
  if (format == Quantization::kMxfp4) return model::IsBase(parameter, model::Kind::kExperts);
  return format != Quantization::kNone && model::IsLinear(parameter);
}

int64_t StorageBytes(Storage storage, int64_t elements) {
  switch (storage) {
    case Storage::kFloat32:
      return 4 * elements;
    case Storage::kBfloat16:
      return 2 * elements;
    case Storage::kDynamic8:
    case Storage::kInt8:
      return elements;
    default:
      return (elements + 1) / 2;
  }
}

const char* StorageName(Storage storage) {
  constexpr const char* kNames[] = {"float32",    "bfloat16", "dynamic8", "nf4",
                                    "nf4_double", "int8",     "mxfp4"};
  return kNames[static_cast<size_t>(storage)];
}

int64_t ScaleBytes(Storage storage, int64_t elements) {
  if (storage == Storage::kNf4) return 4 * kernels::Nf4Blocks(elements);
  if (storage == Storage::kMxfp4) return kernels::Mxfp4Blocks(elements);
  return storage == Storage::kNf4Double ? kernels::Nf4Blocks(elements) : 0;
}

int64_t ScaleConstants(Storage storage, int64_t rows, int64_t cols) {
  if (storage == Storage::kNf4Double) return kernels::Nf4Constants(rows * cols);
  return storage == Storage::kInt8 ? rows : 0;
}

ParameterStorage StorageOf(const Plan& plan, const model::Parameter& parameter) {
  ParameterStorage storage;
  storage.weights = ComputeStorage(plan);
  if (model::IsBuffer(parameter)) {
    storage.weights = Storage::kFloat32;
    return storage;
  }
  if (!parameter.trainable()) {
    if (IsQuantizedIn(plan.quantization, parameter)) storage.weights = StorageIn(plan.quantization);
    return storage;
  }
  storage.gradient = GradientOf(plan, parameter);
  const Storage trained =
      model::IsAdapter(parameter) ? Storage::kFloat32 : StorageIn(plan.master_dtype);
  if (trained == Storage::kFloat32 && storage.weights != trained) storage.master = trained;
  return storage;
}

bool IsWrittenByProduct(const Plan& plan, const model::Parameter& parameter) {
  return model::IsLinear(parameter) || model::IsBase(parameter, model::Kind::kRouter) ||
         model::IsHead(parameter) || (model::IsEmbedding(parameter) && plan.model.tie_embeddings);
}

bool TrainsBase(const Plan& plan) {
  return std::any_of(plan.parameters.begin(), plan.parameters.end(), [](const auto& parameter) {
    return parameter.trainable() && !model::IsAdapter(parameter);
  });
}

Storage ComputeStorage(const Plan& plan) { return StorageIn(plan.compute_dtype); }

int64_t ComputeBytes(const Plan& plan) { return StorageBytes(ComputeStorage(plan), 1); }

int64_t LogitsRowBytes(const Plan& plan) {
  const int64_t element = ComputeBytes(plan);
  return element * LogitsStride(plan.model.vocab_size, element);
}

int64_t LogitsBytes(const Plan& plan) {
  return plan.lm_head_panel_bytes > 0 ? plan.lm_head_panel_bytes
                                      : plan.lm_head_chunk_tokens * LogitsRowBytes(plan);
}

}  // namespace coxswain::plan
