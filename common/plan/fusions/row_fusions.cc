// Fusions of ops on rows: the add with the norm behind it, attention with the rotation before it.
#include "common/plan/fusions/fused_ops.h"

namespace coxswain::plan {

// An add to the stream that no product does and the RMSNorm of the sum: kernels/norms/norms.h,
// AddRmsNormForward. The last add of a block goes with the first norm of the next.

namespace {

using model::AddNormOp;
using model::AddOp;
using model::NormOp;

bool NormOfSum(const AddOp& add, const model::Op& next) {
  const auto* norm = std::get_if<NormOp>(&next);
  return norm != nullptr && !norm->is_layer_norm() && norm->in == add.out;
}

int64_t FuseAddNorm(const Plan& /*plan*/, OpLists* lists) {
  int64_t pairs = 0;
  Ops* list_of_add = nullptr;  // whose last op, so far, is an add
  for (Ops& list : lists->forward) {
    Ops rewritten;
    for (model::Op& op : list) {
      const AddOp* add = list_of_add == nullptr ? nullptr : &std::get<AddOp>(list_of_add->back());
      if (add != nullptr && NormOfSum(*add, op)) {
        AddNormOp both{*add, std::get<NormOp>(op)};
        list_of_add->pop_back();
        rewritten.emplace_back(std::move(both));
        ++pairs;
      } else {
        rewritten.push_back(std::move(op));
      }
      const bool is_add = std::holds_alternative<AddOp>(rewritten.back());
      list_of_add = is_add ? &rewritten : nullptr;
    }
    const bool ends_in_add = list_of_add == &rewritten;
    list = std::move(rewritten);
    if (ends_in_add) list_of_add = &list;
  }
  return pairs;
}

}  // namespace

const Fusion kAddNormFusion = {.name = "add_norm", .rewrite = &FuseAddNorm};

// The gradient of attention with that of the rotation before it: `rotation` of
// kernels/attention/attention.h. Norms of q and k and adapters come before both.

namespace {

int64_t FuseAttentionRotate(const Plan& plan, OpLists* lists) {
  const auto fuse = [](const model::AttentionOp& attention, const model::RotateOp& rotate,
                       int64_t /*layer*/) -> std::optional<model::Op> {
    if (attention.qkv != rotate.qkv) return std::nullopt;
    return model::RotatedAttentionOp{attention, rotate};
  };
  return FusePairs<model::AttentionOp, model::RotateOp>(plan.model.num_layers, &lists->backward,
                                                        fuse);
}

}  // namespace

const Fusion kAttentionRotateFusion = {.name = "attention_rotate", .rewrite = &FuseAttentionRotate};

}  // namespace coxswain::plan
