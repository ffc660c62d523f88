// The forward of attention in FP8 (kernels/attention/fp8_attention.h) on the CPU.
#ifndef COXSWAIN_KERNELS_CPU_ATTENTION_FP8_ATTENTION_H_
#define COXSWAIN_KERNELS_CPU_ATTENTION_FP8_ATTENTION_H_

#include <cstdint>

#include "kernels/attention/attention.h"

namespace coxswain::kernels::cpu {

int64_t Fp8AttentionWorkspaceBytes(const AttentionSpec& spec);
// Of arguments that AttentionForward has checked.
void Fp8AttentionForward(const AttentionForwardArgs& args);

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_ATTENTION_FP8_ATTENTION_H_
