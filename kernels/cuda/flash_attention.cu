#include "kernels/cuda/flash_attention.h"

#include <stdexcept>

namespace coxswain::kernels::cuda {

bool FlashAttentionSupports(const AttentionSpec& spec) { return false; }
int64_t FlashAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens) {
  return 0;
}
void FlashAttentionForward(const AttentionForwardArgs& args, Stream* stream) {
  throw std::invalid_argument("FlashAttentionForward: not in this build");
}
void FlashAttentionBackward(const AttentionBackwardArgs& args, Stream* stream) {
  throw std::invalid_argument("FlashAttentionBackward: not in this build");
}

}  // namespace coxswain::kernels::cuda
