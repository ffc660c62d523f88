// Source: transformers 5 conversion_mapping.py (block_sparse_moe becomes mlp).
#include "common/model/router_module.h"

#include <algorithm>

namespace coxswain::model {
namespace {

// "mlp.gate" of "mlp.gate.weight".
std::string Above(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

std::string RouterModule(const Block& block, const TensorSpec& router) {
  const std::string in_files = Above(router.name);
  const auto stack = std::find_if(block.tensors.begin(), block.tensors.end(),
                                  [](const auto& one) { return one.kind == Kind::kExperts; });
  if (stack == block.tensors.end()) return in_files;
  return Above(Above(stack->name)) + in_files.substr(in_files.rfind('.'));
}

}  // namespace coxswain::model
