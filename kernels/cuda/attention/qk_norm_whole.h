// QK-norm whose rows are all q heads of a token together and all its k heads (QkNormSpec::whole).
// The caller has checked the contract of kernels/attention/heads.h; tokens > 0.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_QK_NORM_WHOLE_H_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_QK_NORM_WHOLE_H_

#include <cstdint>

#include "kernels/attention/heads.h"

namespace coxswain::kernels::cuda {

void QkNormWholeForward(const QkNormForwardArgs& args, Stream* stream);
int64_t QkNormWholeBackwardWorkspaceBytes(const QkNormSpec& spec, int64_t tokens);
void QkNormWholeBackward(const QkNormBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_QK_NORM_WHOLE_H_
