// The tensors of an exported model, and where their values come from.
#ifndef COXSWAIN_CONTROLLER_EXPORT_LIST_MODEL_TENSORS_H_
#define COXSWAIN_CONTROLLER_EXPORT_LIST_MODEL_TENSORS_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/config/job_spec.h"
#include "common/files/weights/weight_files.h"
#include "common/plan/plan.h"
#include "controller/export/model_tensor.h"

namespace coxswain::exports {

// What the model's config.json says and a base to read from. Drawn weights have no base.
struct ModelSource {
  nlohmann::ordered_json config;
  std::string config_text;
  std::unique_ptr<WeightFiles> base;  // null: base_model.init is random

  const TensorInfo* Find(const std::string& name) const {
    return base == nullptr ? nullptr : base->Find(name);
  }
  // The key of the dialect: transformers 5 says dtype.
  const char* DTypeKey() const { return config.contains("torch_dtype") ? "torch_dtype" : "dtype"; }
};

// NotFound, InvalidArgument: config.json of plan.model_path is gone, or is none.
absl::StatusOr<ModelSource> OpenModelSource(const plan::Plan& plan);

// In the order of the plan, then those beside the text; dtypes are by job.export_dtype: under fp8
// kF8E4M3 of what is written as codes and scales (fp8_tensors.h). They point into plan, source and
// checkpoint. NotFound names a tensor without values; FailedPrecondition one
// whose shape is not as planned.
absl::StatusOr<std::vector<ModelTensor>> ListModelTensors(const config::JobSpec& job,
                                                          const plan::Plan& plan,
                                                          const ModelSource& from,
                                                          const CheckpointTensors& checkpoint);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_LIST_MODEL_TENSORS_H_
