// What a spec must be for the CPU and for CUDA.
#include "kernels/loss/document_terms.h"

namespace coxswain::kernels {

bool DocumentLossSupports(const DocumentLossSpec& spec) {
  if (spec.terms < 1 || spec.terms > kMostDocumentTerms || !(spec.beta > 0) ||
      !(spec.label_smoothing >= 0 && spec.label_smoothing < 0.5)) {
    return false;
  }
  for (int i = 0; i < spec.terms; ++i) {
    if (IsOfRecords(spec.type[i]) == spec.pairs) return false;
  }
  return true;
}

}  // namespace coxswain::kernels
