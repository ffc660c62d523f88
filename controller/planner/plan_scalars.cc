#include "controller/planner/plan_scalars.h"

#include "common/config/rules/bin_capacity.h"
#include "controller/planner/model/preference_loss.h"

namespace coxswain::planner {

void SetScalars(const std::string& job_id, const config::JobSpec& job,
                const std::string& recipe_hash, plan::Plan* plan) {
  plan->job = job_id;
  plan->recipe_hash = recipe_hash;
  plan->model_path = job.model_path;
  plan->init = job.init;
  plan->init_seed = job.init_seed;
  plan->seed = job.train.seed;
  plan->overlap = job.overlap;
  plan->sequence_len = config::BinCapacity(job);
  plan->max_documents_per_bin = job.packing.strategy == config::PackingStrategy::kNone
                                    ? config::DocumentsPerUnit(job)
                                    : job.packing.max_documents_per_bin;
  plan->optimizer = job.train.optimizer;
  plan->beta1 = job.train.beta1;
  plan->beta2 = job.train.beta2;
  plan->eps = job.train.eps;
  plan->max_grad_norm = job.train.max_grad_norm;
  plan->label_smoothing = job.train.label_smoothing;
  plan->z_loss = job.train.z_loss;
  plan->document_loss = DocumentLossOf(job);
  if (plan->model.mixture.experts > 0) {
    plan->router_losses = {.balance = job.moe.aux_loss_coef.value_or(plan->model.mixture.aux_loss),
                           .z = job.moe.router_z_loss,
                           .by_micro_batch = job.moe.aux_loss_by_micro_batch};
    if (job.method != "generate") plan->router_bias_rate = job.moe.bias_rate.value_or(0);
  }
  plan->device = job.device == config::Device::kCuda ? DeviceKind::kCuda : DeviceKind::kCpu;
  plan->compute_dtype = job.compute_dtype.value_or(Precision::kFloat32);
  plan->attention_deterministic = job.attention_deterministic;
}

}  // namespace coxswain::planner
