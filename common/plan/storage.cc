#include "common/plan/storage.h"

#include <algorithm>
#include <string>

namespace coxswain::plan {
namespace {

Storage Named(const std::string& dtype) {
  return dtype == "bfloat16" ? Storage::kBfloat16 : Storage::kFloat32;
}

// Matrices of the base model take the plan's gradient dtype. Vectors, a tied embedding, which two
// products add to, and adapters take float32.
Storage GradientOf(const Plan& plan, const model::Parameter& parameter) {
  const bool tied = parameter.role == model::Role::kEmbedding && plan.model.tie_embeddings;
  const bool precise = parameter.cols == 1 || tied || model::IsAdapter(parameter.role);
  return precise ? Storage::kFloat32 : Named(plan.gradient_dtype);
}

}  // namespace

int64_t StorageBytes(Storage storage, int64_t elements) {
  return elements * (storage == Storage::kBfloat16 ? 2 : 4);
}

const char* StorageName(Storage storage) {
  return storage == Storage::kBfloat16 ? "bfloat16" : "float32";
}

ParameterStorage StorageOf(const Plan& plan, const model::Parameter& parameter) {
  ParameterStorage storage;
  storage.weights = ComputeStorage(plan);
  if (!parameter.trainable()) return storage;
  storage.gradient = GradientOf(plan, parameter);
  const Storage trained =
      model::IsAdapter(parameter.role) ? Storage::kFloat32 : Named(plan.master_dtype);
  if (trained == Storage::kFloat32 && storage.weights != trained) storage.master = trained;
  return storage;
}

bool TrainsBase(const Plan& plan) {
  return std::any_of(plan.parameters.begin(), plan.parameters.end(), [](const auto& parameter) {
    return parameter.trainable() && !model::IsAdapter(parameter.role);
  });
}

Storage ComputeStorage(const Plan& plan) { return Named(plan.compute_dtype); }

int64_t ComputeBytes(const Plan& plan) { return StorageBytes(ComputeStorage(plan), 1); }

}  // namespace coxswain::plan
