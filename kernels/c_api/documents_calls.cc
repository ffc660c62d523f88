// Translates the structs of kernels/c_api/c_api.h into those of the ops: losses of documents.
#include <stdexcept>
#include <string>

#include "kernels/c_api/calls.h"
#include "kernels/loss/document_loss.h"
#include "kernels/loss/policy_loss.h"

namespace coxswain::kernels::c_api {
namespace {

static_assert(COXSWAIN_MOST_DOCUMENT_TERMS == kMostDocumentTerms);
static_assert(COXSWAIN_PREFERENCE_SUMS == kPreferenceSums);
static_assert(sizeof(DocumentRows) == 3 * sizeof(int32_t));
static_assert(sizeof(DocumentSums) == 2 * sizeof(double));
static_assert(sizeof(DocumentScalars) == 2 * sizeof(double));
static_assert(sizeof(PreferenceSums) == kPreferenceSums * sizeof(double));

DocumentTerm TermOf(int32_t type) {
  if (type < COXSWAIN_DOCUMENT_SIGMOID || type > COXSWAIN_DOCUMENT_APO_ZERO_RECORD) {
    throw std::invalid_argument("term is " + std::to_string(type) +
                                ", must be of enum coxswain_document_term");
  }
  return static_cast<DocumentTerm>(type);
}

DocumentLossSpec SpecOf(const coxswain_document_loss_args& args) {
  DocumentLossSpec spec;
  spec.pairs = args.pairs != 0;
  spec.terms = args.terms;
  for (int i = 0; i < kMostDocumentTerms && i < args.terms; ++i) {
    spec.type[i] = TermOf(args.type[i]);
    spec.weight[i] = args.weight[i];
  }
  spec.beta = args.beta;
  spec.label_smoothing = args.label_smoothing;
  spec.margin = args.margin;
  spec.desirable_weight = args.desirable_weight;
  spec.undesirable_weight = args.undesirable_weight;
  spec.mean_rewards = args.mean_rewards != 0;
  return spec;
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_sum_documents(const coxswain_sum_documents_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SumDocuments({.documents = args->documents,
                           .rows = reinterpret_cast<const kernels::DocumentRows*>(args->rows),
                           .nll = args->nll,
                           .sums = reinterpret_cast<kernels::DocumentSums*>(args->sums)},
                          c_api::Wrap(stream));
  });
}

int coxswain_document_loss(const coxswain_document_loss_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::DocumentLoss(
        {.spec = c_api::SpecOf(*args),
         .documents = args->documents,
         .rows = reinterpret_cast<const kernels::DocumentRows*>(args->rows),
         .sums = reinterpret_cast<const kernels::DocumentSums*>(args->sums),
         .references = reinterpret_cast<const kernels::DocumentSums*>(args->references),
         .labels = args->labels,
         .scalars = reinterpret_cast<const kernels::DocumentScalars*>(args->scalars),
         .coefficients = args->coefficients,
         .loss = args->loss,
         .reports = reinterpret_cast<kernels::PreferenceSums*>(args->reports),
         .weights = args->weights},
        c_api::Wrap(stream));
  });
}

}  // extern "C"

// Translates the struct of kernels/c_api/c_api.h into that of the op: losses of policies.

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
