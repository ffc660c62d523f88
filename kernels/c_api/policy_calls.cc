// Translates the struct of kernels/c_api/c_api.h into that of the op: losses of policies.
#include "kernels/c_api/calls.h"
#include "kernels/loss/policy_loss.h"

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

static_assert(COXSWAIN_POLICY_SUMS * sizeof(double) == sizeof(kernels::PolicySums));
static_assert(COXSWAIN_POLICY_PARTS * sizeof(double) == sizeof(kernels::PolicyPart));

extern "C" {

// A number that is of no enum is refused by the op.
int coxswain_policy_loss(const coxswain_policy_loss_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::PolicyLoss(
        {.spec = {.objective = static_cast<kernels::PolicyObjective>(args->objective),
                  .normaliser = static_cast<kernels::PolicyNormaliser>(args->normaliser),
                  .sequence_ratio = args->sequence_ratio != 0,
                  .epsilon_low = args->epsilon_low,
                  .epsilon_high = args->epsilon_high,
                  .delta = args->delta,
                  .kl_weight = args->kl_weight},
         .documents = args->documents,
         .rows = reinterpret_cast<const kernels::DocumentRows*>(args->rows),
         .nll = args->nll,
         .old_logps = args->old_logps,
         .advantages = args->advantages,
         .references = args->references,
         .parts = reinterpret_cast<kernels::PolicyPart*>(args->parts),
         .loss = args->loss,
         .reports = reinterpret_cast<kernels::PolicySums*>(args->reports),
         .weights = args->weights},
        c_api::Wrap(stream));
  });
}

}  // extern "C"
