// The functions of kernels/c_api/c_api.h for experts over the CPU's library: the bits of the ops
// that they call, and how each refuses.
#include <limits>
#include <string>
#include <vector>

#include "kernels/c_api/c_api.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/expert_use.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/grouped_lora.h"
#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace c_api_experts_test {
namespace {

using Ints = std::vector<int32_t>;
constexpr int64_t kTokens = 5, kExperts = 6, kChosen = 2, kIn = 4, kOut = 3;
constexpr int64_t kPairs = kTokens * kChosen;

void ExpectOk(int code) { EXPECT_EQ(code, COXSWAIN_OK) << coxswain_last_error(); }
void ExpectRefused(int code, const char* what) {
  EXPECT_EQ(code, COXSWAIN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(coxswain_last_error()).find(what), std::string::npos)
      << coxswain_last_error();
}

// A pass from logits to places, by the C functions.
struct Places {
  Floats logits = Normal(kTokens * kExperts, 1), weights = Floats(kPairs);
  Ints ids = Ints(kPairs), order = Ints(kPairs), places = Ints(kPairs), offsets = Ints(7),
       counts = Ints(6);

  Places() {
    coxswain_route_args route{};
    route.tokens = kTokens;
    route.experts = kExperts;
    route.chosen = kChosen;
    route.renormalise = 1;
    route.logits = logits.data();
    route.ids = ids.data();
    route.weights = weights.data();
    ExpectOk(coxswain_route_forward(&route, nullptr));
    coxswain_sort_by_expert_args sort{};
    sort.tokens = kTokens;
    sort.experts = kExperts;
    sort.chosen = kChosen;
    sort.ids = ids.data();
    sort.order = order.data();
    sort.places = places.data();
    sort.offsets = offsets.data();
    sort.counts = counts.data();
    EXPECT_EQ(coxswain_sort_by_expert_workspace_bytes(&sort), 0);
    ExpectOk(coxswain_sort_by_expert(&sort, nullptr));
  }
};

TEST(CApiExpertsTest, RouteInGroupsWithBiasAndPadding) {
  const Floats logits = Normal(kTokens * kExperts, 1), bias = Normal(kExperts, 2);
  const Floats dweights = Normal(kPairs, 3);
  const Ints padding = {0, 0, -1, 0, 0};
  Ints ids(kPairs), c_ids(kPairs);
  Floats weights(kPairs), c_weights(kPairs), dlogits(30), c_dlogits(30);
  const RouteSpec spec{.experts = kExperts,
                       .chosen = kChosen,
                       .score = RouterScore::kSigmoid,
                       .groups = 3,
                       .top_groups = 2,
                       .renormalise = true,
                       .scale = 2.5f};
  RouteForward({.spec = spec,
                .tokens = kTokens,
                .logits = logits.data(),
                .bias = bias.data(),
                .padding = padding.data(),
                .ids = ids.data(),
                .weights = weights.data()},
               nullptr);
  RouteBackward({.spec = spec,
                 .tokens = kTokens,
                 .logits = logits.data(),
                 .ids = ids.data(),
                 .dweights = dweights.data(),
                 .dlogits = dlogits.data()},
                nullptr);
  coxswain_route_args args{};
  args.score = COXSWAIN_SIGMOID;
  args.renormalise = 1;
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.groups = 3;
  args.top_groups = 2;
  args.scale = 2.5f;
  args.logits = logits.data();
  args.bias = bias.data();
  args.padding = padding.data();
  args.ids = c_ids.data();
  args.weights = c_weights.data();
  args.dweights = dweights.data();
  args.dlogits = c_dlogits.data();
  ExpectOk(coxswain_route_forward(&args, nullptr));
  ExpectOk(coxswain_route_backward(&args, nullptr));
  EXPECT_EQ(c_ids, ids);
  EXPECT_TRUE(SameBits(c_weights, weights) && SameBits(c_dlogits, dlogits));
  args.chosen = 7;
  ExpectRefused(coxswain_route_forward(&args, nullptr), "Route");
  args.score = 2;
  ExpectRefused(coxswain_route_backward(&args, nullptr), "score is 2");
}

TEST(CApiExpertsTest, DispatchAndCombine) {
  const Places at;
  const Floats x = Normal(kTokens * kIn, 4), dy = Normal(kTokens * kIn, 5);
  Floats rows(kPairs * kIn), c_rows(rows), y(x.size()), c_y(y), drows(rows), c_drows(rows);
  Floats dweights(kPairs), c_dweights(dweights), dx(x.size()), c_dx(dx);
  const DispatchSpec spec{.hidden = kIn, .chosen = kChosen};
  const CombineSpec combine_spec{.hidden = kIn, .chosen = kChosen};
  DispatchForward({spec, kTokens, at.order.data(), at.places.data(), x.data(), rows.data()},
                  nullptr);
  CombineForward(
      {combine_spec, kTokens, at.places.data(), at.weights.data(), rows.data(), y.data()}, nullptr);
  CombineBackward({combine_spec, kTokens, at.order.data(), at.places.data(), at.weights.data(),
                   rows.data(), dy.data(), drows.data(), dweights.data()},
                  nullptr);
  DispatchBackward({.spec = spec,
                    .tokens = kTokens,
                    .places = at.places.data(),
                    .drows = drows.data(),
                    .dx = dx.data()},
                   nullptr);
  coxswain_dispatch_args dispatch{};
  dispatch.tokens = kTokens;
  dispatch.chosen = kChosen;
  dispatch.hidden = kIn;
  dispatch.order = at.order.data();
  dispatch.places = at.places.data();
  dispatch.x = x.data();
  dispatch.rows = c_rows.data();
  dispatch.drows = c_drows.data();
  dispatch.dx = c_dx.data();
  coxswain_combine_args combine{};
  combine.tokens = kTokens;
  combine.chosen = kChosen;
  combine.hidden = kIn;
  combine.order = at.order.data();
  combine.places = at.places.data();
  combine.weights = at.weights.data();
  combine.rows = c_rows.data();
  combine.y = c_y.data();
  combine.dy = dy.data();
  combine.drows = c_drows.data();
  combine.dweights = c_dweights.data();
  ExpectOk(coxswain_dispatch_forward(&dispatch, nullptr));
  ExpectOk(coxswain_combine_forward(&combine, nullptr));
  ExpectOk(coxswain_combine_backward(&combine, nullptr));
  ExpectOk(coxswain_dispatch_backward(&dispatch, nullptr));
  EXPECT_TRUE(SameBits(c_rows, rows) && SameBits(c_y, y) && SameBits(c_drows, drows) &&
              SameBits(c_dweights, dweights) && SameBits(c_dx, dx));
  dispatch.dtype = combine.dtype = COXSWAIN_BFLOAT16;
  ExpectRefused(coxswain_dispatch_forward(&dispatch, nullptr), "Dispatch");
  ExpectRefused(coxswain_combine_forward(&combine, nullptr), "Combine");
}

TEST(CApiExpertsTest, GroupedLinear) {
  const Places at;
  const Floats x = Normal(kPairs * kIn, 4), w = Normal(kExperts * kOut * kIn, 5);
  const Floats bias = Normal(kExperts * kOut, 6), dy = Normal(kPairs * kOut, 7);
  Floats y(dy.size()), c_y(y), dx(x.size()), c_dx(dx);
  Floats dw(w.size(), 1.0f), c_dw(dw), dbias(bias.size(), 1.0f), c_dbias(dbias);
  const GroupedLinearSpec spec{.experts = kExperts, .in_features = kIn, .out_features = kOut};
  GroupedLinearForward({spec, kPairs, at.offsets.data(), x.data(), w.data(), bias.data(), y.data()},
                       nullptr);
  GroupedLinearInputGradient({spec, kPairs, at.offsets.data(), dy.data(), w.data(), dx.data()},
                             nullptr);
  GroupedLinearWeightGradient(
      {spec, kPairs, at.offsets.data(), dy.data(), x.data(), true, dw.data(), dbias.data()},
      nullptr);
  coxswain_grouped_linear_args args{};
  args.rows = kPairs;
  args.experts = kExperts;
  args.in_features = kIn;
  args.out_features = kOut;
  args.accumulate = 1;
  args.offsets = at.offsets.data();
  args.x = x.data();
  args.weight = w.data();
  args.bias = bias.data();
  args.y = c_y.data();
  args.dy = dy.data();
  args.dx = c_dx.data();
  args.dweight = c_dw.data();
  args.dbias = c_dbias.data();
  ExpectOk(coxswain_grouped_linear_forward(&args, nullptr));
  ExpectOk(coxswain_grouped_linear_input_gradient(&args, nullptr));
  ExpectOk(coxswain_grouped_linear_weight_gradient(&args, nullptr));
  EXPECT_TRUE(SameBits(c_y, y) && SameBits(c_dx, dx) && SameBits(c_dw, dw) &&
              SameBits(c_dbias, dbias));
  args.rows = 3;
  ExpectRefused(coxswain_grouped_linear_forward(&args, nullptr), "GroupedLinear: rows of expert");
}

TEST(CApiExpertsTest, GroupedLora) {
  constexpr int64_t kRank = 2;
  const Places at;
  const Floats x = Normal(kPairs * kIn, 4), dy = Normal(kPairs * kOut, 7);
  const Floats a = Normal(kExperts * kRank * kIn, 5), b = Normal(kExperts * kOut * kRank, 6);
  Floats h(kPairs * kRank), c_h(h), y(dy.size(), 1.0f), c_y(y), dx(x.size(), 1.0f), c_dx(dx);
  Floats da(a.size(), 1.0f), c_da(da), db(b.size(), 1.0f), c_db(db);
  const GroupedLoraSpec spec{
      .experts = kExperts, .in_features = kIn, .out_features = kOut, .rank = kRank, .scale = 0.5f};
  Scratch scratch(GroupedLoraBackwardWorkspaceBytes(spec, kPairs));
  GroupedLoraForward(
      {spec, kPairs, at.offsets.data(), x.data(), a.data(), b.data(), h.data(), y.data()}, nullptr);
  GroupedLoraBackward({spec, kPairs, at.offsets.data(), x.data(), a.data(), b.data(), h.data(),
                       dy.data(), da.data(), db.data(), dx.data(), scratch.view()},
                      nullptr);
  coxswain_grouped_lora_args args{};
  args.rows = kPairs;
  args.experts = kExperts;
  args.in_features = kIn;
  args.out_features = kOut;
  args.rank = kRank;
  args.scale = 0.5f;
  args.offsets = at.offsets.data();
  args.x = x.data();
  args.a = a.data();
  args.b = b.data();
  args.h = c_h.data();
  args.y = c_y.data();
  args.dy = dy.data();
  args.da = c_da.data();
  args.db = c_db.data();
  args.dx = c_dx.data();
  args.workspace = {scratch.view().data, coxswain_grouped_lora_backward_workspace_bytes(&args)};
  ExpectOk(coxswain_grouped_lora_forward(&args, nullptr));
  ExpectOk(coxswain_grouped_lora_backward(&args, nullptr));
  EXPECT_TRUE(SameBits(c_h, h) && SameBits(c_y, y) && SameBits(c_dx, dx) && SameBits(c_da, da) &&
              SameBits(c_db, db));
  args.rank = 0;
  ExpectRefused(coxswain_grouped_lora_forward(&args, nullptr), "GroupedLora");
}

TEST(CApiExpertsTest, RouterLoss) {
  const Places at;
  const RouterLossSpec spec{.experts = kExperts, .chosen = kChosen};
  Doubles sums(14), c_sums(14), losses(2), c_losses(2);
  const Floats factors = {0.5f, 0.25f};
  Floats dlogits(30), c_dlogits(30);
  Scratch scratch(RouterLossSumsWorkspaceBytes(spec, kTokens));
  RouterLossSums(
      {spec, kTokens, at.logits.data(), at.ids.data(), true, sums.data(), scratch.view()}, nullptr);
  RouterLoss({spec, sums.data(), losses.data()}, nullptr);
  RouterLossGradient(
      {spec, kTokens, at.logits.data(), at.ids.data(), sums.data(), factors.data(), dlogits.data()},
      nullptr);
  coxswain_router_loss_args args{};
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.accumulate = 1;
  args.logits = at.logits.data();
  args.ids = at.ids.data();
  args.sums = c_sums.data();
  args.losses = c_losses.data();
  args.factors = factors.data();
  args.dlogits = c_dlogits.data();
  ExpectRefused(coxswain_router_loss_sums(&args, nullptr), "workspace of 0 bytes");
  args.workspace = {scratch.view().data, coxswain_router_loss_sums_workspace_bytes(&args)};
  ExpectOk(coxswain_router_loss_sums(&args, nullptr));
  ExpectOk(coxswain_router_loss(&args, nullptr));
  ExpectOk(coxswain_router_loss_gradient(&args, nullptr));
  EXPECT_EQ(c_sums, sums);
  EXPECT_EQ(c_losses, losses);
  EXPECT_TRUE(SameBits(c_dlogits, dlogits));
}

TEST(CApiExpertsTest, UseOfExpertsAndTheBiasThatItMoves) {
  const Places at;
  const ExpertUseSpec spec{.experts = kExperts, .chosen = kChosen, .score = RouterScore::kSigmoid};
  Doubles sums(8), c_sums(8);
  Scratch scratch(ExpertUseWorkspaceBytes(spec, kTokens));
  ExpertUse({spec, kTokens, at.logits.data(), at.ids.data(), at.counts.data(), sums.data(),
             scratch.view()},
            nullptr);
  coxswain_expert_use_args args{};
  args.score = COXSWAIN_SIGMOID;
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.logits = at.logits.data();
  args.ids = at.ids.data();
  args.counts = at.counts.data();
  args.sums = c_sums.data();
  ExpectRefused(coxswain_expert_use(&args, nullptr), "workspace of 0 bytes");
  args.workspace = {scratch.view().data, coxswain_expert_use_workspace_bytes(&args)};
  ExpectOk(coxswain_expert_use(&args, nullptr));
  EXPECT_EQ(c_sums, sums);
  args.score = 7;
  ExpectRefused(coxswain_expert_use(&args, nullptr), "score is 7");

  const float rate = 0.25f;
  const int32_t skip = 0;
  Floats bias(6), c_bias(6);
  BalanceBias({1, kExperts, 8, sums.data(), &rate, &skip, bias.data()}, nullptr);
  coxswain_balance_bias_args move{};
  move.routers = 1;
  move.experts = kExperts;
  move.stride = 8;
  move.counts = sums.data();
  move.rate = &rate;
  move.skip = &skip;
  move.bias = c_bias.data();
  ExpectOk(coxswain_balance_bias(&move, nullptr));
  EXPECT_TRUE(SameBits(c_bias, bias));
  EXPECT_NE(bias, Floats(6));
}

}  // namespace
}  // namespace c_api_experts_test
}  // namespace coxswain::kernels
