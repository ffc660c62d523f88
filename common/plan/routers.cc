#include "common/plan/routers.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace coxswain::plan {
namespace {

constexpr int64_t kOfLosses = 2;

int64_t UseDoubles(int64_t experts) { return experts + 2; }

template <typename Use>
void ForRouters(const Plan& plan, const Use& use) {
  const std::vector<model::Block>& blocks = plan.architecture.blocks;
  for (size_t layer = 0; layer < blocks.size(); ++layer) {
    for (const model::PlainOp& op : blocks[layer].ops) {
      const auto* route = std::get_if<model::RouteOp>(&op);
      if (route != nullptr) use(static_cast<int64_t>(layer), *route);
    }
  }
}

}  // namespace

std::vector<Router> RoutersOf(const Plan& plan) {
  std::vector<Router> routers;
  int64_t use = 0, moved = 0;
  ForRouters(plan, [&](int64_t layer, const model::RouteOp& op) {
    Router router{layer, op.id, op.experts, op.chosen, use, op.correction};
    use += UseDoubles(op.experts);
    if (plan.router_bias_rate > 0 && op.correction != model::kNoTensor) {
      router.moved = moved;
      moved += op.experts;
    }
    routers.push_back(router);
  });
  return routers;
}

int64_t RouterUseDoubles(const Plan& plan) {
  const std::vector<Router> routers = RoutersOf(plan);
  return routers.empty() ? 0 : routers.back().use + UseDoubles(routers.back().experts) + kOfLosses;
}

bool IsMovedCorrection(const Plan& plan, const model::Parameter& parameter) {
  return plan.router_bias_rate > 0 && model::IsBuffer(parameter);
}

absl::Status CheckRouters(const Plan& plan) {
  if (plan.router_bias_rate == 0) return absl::OkStatus();
  int64_t routers = 0, without = -1;
  ForRouters(plan, [&](int64_t layer, const model::RouteOp& op) {
    ++routers;
    if (without < 0 && op.correction == model::kNoTensor) without = layer;
  });
  if (routers > 0 && without < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan: router_bias_rate is ", plan.router_bias_rate, ", ",
                   routers == 0 ? std::string("and the model has no router")
                                : absl::StrCat("the router of layer ", without,
                                               " has no correction that it could move")));
}

}  // namespace coxswain::plan
