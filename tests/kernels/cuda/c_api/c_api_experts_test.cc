// The functions of kernels/c_api/experts.h: the bits of the ops that they call, and how each
// refuses.
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/expert_use.h"
#include "kernels/experts/grouped_gated_linear.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/grouped_lora.h"
#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"
#include "tests/kernels/cuda/expert_pairs.h"

namespace coxswain::kernels {
namespace gpu_c_api_experts_test {
namespace {

constexpr int64_t kTokens = 5, kExperts = 6, kChosen = 2, kHidden = 24;
constexpr int64_t kPairs = kTokens * kChosen;
constexpr DType kFloat = DType::kFloat32, kType = DType::kBFloat16;
constexpr RouterLossSpec kLoss{.experts = kExperts, .chosen = kChosen};

TEST(CApiExpertsGpuTest, RouteInGroupsWithBiasAndPadding) {
  const DeviceTensor logits(kFloat, Normal(kTokens * kExperts, 1, kFloat));
  const DeviceTensor bias(kFloat, Normal(kExperts, 2, kFloat));
  const DeviceTensor dweights(kFloat, Normal(kPairs, 3, kFloat));
  const DeviceValues<int32_t> padding({0, 0, -1, 0, 0});
  const ValueTwins<int32_t> ids{Ints(kPairs)};
  const Twins weights(Floats(kPairs), kFloat), dlogits(Floats(kTokens * kExperts), kFloat);
  const RouteSpec spec{.experts = kExperts,
                       .chosen = kChosen,
                       .score = RouterScore::kSigmoid,
                       .groups = 3,
                       .top_groups = 2,
                       .renormalise = true,
                       .scale = 2.5f};
  RouteForward({.spec = spec,
                .tokens = kTokens,
                .logits = logits.floats(),
                .bias = bias.floats(),
                .padding = padding.data(),
                .ids = ids.op.data(),
                .weights = weights.op.floats()},
               TestStream());
  RouteBackward({.spec = spec,
                 .tokens = kTokens,
                 .logits = logits.floats(),
                 .ids = ids.op.data(),
                 .dweights = dweights.floats(),
                 .dlogits = dlogits.op.floats()},
                TestStream());
  coxswain_route_args args{};
  args.score = COXSWAIN_SIGMOID;
  args.renormalise = 1;
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.groups = 3;
  args.top_groups = 2;
  args.scale = 2.5f;
  args.logits = logits.floats();
  args.bias = bias.floats();
  args.padding = padding.data();
  args.ids = ids.c.data();
  args.weights = weights.c.floats();
  args.dweights = dweights.floats();
  args.dlogits = dlogits.c.floats();
  EXPECT_OK(coxswain_route_forward(&args, nullptr));
  EXPECT_OK(coxswain_route_backward(&args, nullptr));
  ids.ExpectSame("ids");
  weights.ExpectSame("weights");
  dlogits.ExpectSame("dlogits");
  args.chosen = 7;
  EXPECT_REFUSED(coxswain_route_forward(&args, nullptr), "Route");
  args.score = 2;
  EXPECT_REFUSED(coxswain_route_backward(&args, nullptr), "score is 2");
}

TEST(CApiExpertsGpuTest, SortByExpert) {
  const DeviceValues<int32_t> ids(ExpertIds(kPairs, kExperts, 1, true));
  const ValueTwins<int32_t> order{Ints(kPairs)}, places{Ints(kPairs)};
  const ValueTwins<int32_t> offsets{Ints(kExperts + 1)}, counts{Ints(kExperts)};
  const SortByExpertSpec spec{.experts = kExperts, .chosen = kChosen};
  const Scratch scratch(SortByExpertWorkspaceBytes(spec, kTokens));
  SortByExpert({spec, kTokens, ids.data(), order.op.data(), places.op.data(), offsets.op.data(),
                counts.op.data(), scratch.workspace()},
               TestStream());
  coxswain_sort_by_expert_args args{};
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.ids = ids.data();
  args.order = order.c.data();
  args.places = places.c.data();
  args.offsets = offsets.c.data();
  args.counts = counts.c.data();
  EXPECT_REFUSED(coxswain_sort_by_expert(&args, nullptr), "workspace of 0 bytes");
  EXPECT_EQ(coxswain_sort_by_expert_workspace_bytes(&args), scratch.bytes());
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_sort_by_expert(&args, nullptr));
  order.ExpectSame("order");
  places.ExpectSame("places");
  offsets.ExpectSame("offsets");
  counts.ExpectSame("counts");
}

TEST(CApiExpertsGpuTest, DispatchAndCombine) {
  const SortedPairs pairs(kExperts, ExpertIds(kPairs, kExperts, 1, true));
  const DeviceValues<int32_t> order(pairs.order), places(pairs.places);
  const DeviceTensor x(kType, Normal(kTokens * kHidden, 4, kType));
  const DeviceTensor dy(kType, Normal(kTokens * kHidden, 5, kType));
  const DeviceTensor weights(kFloat, Normal(kPairs, 6, kFloat));
  const Twins rows(Floats(kPairs * kHidden), kType), drows(Floats(kPairs * kHidden), kType);
  const Twins y(Floats(kTokens * kHidden), kType), dx(Floats(kTokens * kHidden), kType);
  const Twins dweights(Floats(kPairs), kFloat);
  const DispatchSpec spec{.dtype = kType, .hidden = kHidden, .chosen = kChosen};
  const CombineSpec combine_spec{.dtype = kType, .hidden = kHidden, .chosen = kChosen};
  DispatchForward({spec, kTokens, order.data(), places.data(), x.data(), rows.op.data()},
                  TestStream());
  CombineForward(
      {combine_spec, kTokens, places.data(), weights.floats(), rows.op.data(), y.op.data()},
      TestStream());
  CombineBackward({combine_spec, kTokens, order.data(), places.data(), weights.floats(),
                   rows.op.data(), dy.data(), drows.op.data(), dweights.op.floats()},
                  TestStream());
  DispatchBackward({.spec = spec,
                    .tokens = kTokens,
                    .places = places.data(),
                    .drows = drows.op.data(),
                    .dx = dx.op.data()},
                   TestStream());
  coxswain_dispatch_args dispatch{};
  coxswain_combine_args combine{};
  dispatch.dtype = combine.dtype = COXSWAIN_BFLOAT16;
  dispatch.tokens = combine.tokens = kTokens;
  dispatch.chosen = combine.chosen = kChosen;
  dispatch.hidden = combine.hidden = kHidden;
  dispatch.order = combine.order = order.data();
  dispatch.places = combine.places = places.data();
  dispatch.x = x.data();
  dispatch.rows = rows.c.data();
  dispatch.drows = combine.drows = drows.c.data();
  dispatch.dx = dx.c.data();
  combine.weights = weights.floats();
  combine.rows = rows.c.data();
  combine.y = y.c.data();
  combine.dy = dy.data();
  combine.dweights = dweights.c.floats();
  EXPECT_OK(coxswain_dispatch_forward(&dispatch, nullptr));
  EXPECT_OK(coxswain_combine_forward(&combine, nullptr));
  EXPECT_OK(coxswain_combine_backward(&combine, nullptr));
  EXPECT_OK(coxswain_dispatch_backward(&dispatch, nullptr));
  rows.ExpectSame("rows");
  y.ExpectSame("y");
  drows.ExpectSame("drows");
  dweights.ExpectSame("dweights");
  dx.ExpectSame("dx");
  dispatch.tokens = combine.tokens = -1;
  EXPECT_REFUSED(coxswain_dispatch_forward(&dispatch, nullptr), "Dispatch: tokens is -1");
  EXPECT_REFUSED(coxswain_dispatch_backward(&dispatch, nullptr), "Dispatch: tokens is -1");
  EXPECT_REFUSED(coxswain_combine_forward(&combine, nullptr), "Combine: tokens is -1");
  EXPECT_REFUSED(coxswain_combine_backward(&combine, nullptr), "Combine: tokens is -1");
}

TEST(CApiExpertsGpuTest, GroupedLinear) {
  constexpr int64_t kRows = 70, kIn = 24, kOut = 40, kMatrices = 3;
  const GroupedLinearSpec spec{.dtype = kType,
                               .grad_dtype = kFloat,
                               .experts = kMatrices,
                               .in_features = kIn,
                               .out_features = kOut};
  const DeviceValues<int32_t> offsets({0, 3, 3, 69});
  const DeviceTensor x(kType, Normal(kRows * kIn, 1, kType));
  const DeviceTensor w(kType, Normal(kMatrices * kIn * kOut, 2, kType));
  const DeviceTensor bias(kType, Normal(kMatrices * kOut, 3, kType));
  const DeviceTensor dy(kType, Normal(kRows * kOut, 4, kType));
  const Twins y{Floats(kRows * kOut)}, dx{Floats(kRows * kIn)};
  const Twins dw(Floats(kMatrices * kIn * kOut, 1.0f), kFloat);
  const Twins dbias(Floats(kMatrices * kOut, 1.0f), kFloat);
  GroupedLinearForward({spec, kRows, offsets.data(), x.data(), w.data(), bias.data(), y.op.data()},
                       TestStream());
  GroupedLinearInputGradient({spec, kRows, offsets.data(), dy.data(), w.data(), dx.op.data()},
                             TestStream());
  GroupedLinearWeightGradient(
      {spec, kRows, offsets.data(), dy.data(), x.data(), true, dw.op.data(), dbias.op.data()},
      TestStream());
  coxswain_grouped_linear_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = kRows;
  args.experts = kMatrices;
  args.in_features = kIn;
  args.out_features = kOut;
  args.accumulate = 1;
  args.offsets = offsets.data();
  args.x = x.data();
  args.weight = w.data();
  args.bias = bias.data();
  args.y = y.c.data();
  args.dy = dy.data();
  args.dx = dx.c.data();
  args.dweight = dw.c.data();
  args.dbias = dbias.c.data();
  EXPECT_OK(coxswain_grouped_linear_forward(&args, nullptr));
  EXPECT_OK(coxswain_grouped_linear_input_gradient(&args, nullptr));
  EXPECT_OK(coxswain_grouped_linear_weight_gradient(&args, nullptr));
  y.ExpectSame("y");
  dx.ExpectSame("dx");
  dw.ExpectSame("dweight");
  dbias.ExpectSame("dbias");
  args.rows = -1;
  EXPECT_REFUSED(coxswain_grouped_linear_forward(&args, nullptr), "rows is -1");
  EXPECT_REFUSED(coxswain_grouped_linear_input_gradient(&args, nullptr), "rows is -1");
  EXPECT_REFUSED(coxswain_grouped_linear_weight_gradient(&args, nullptr), "rows is -1");
}

TEST(CApiExpertsGpuTest, GroupedGatedLinear) {
  constexpr int64_t kRows = 70, kIn = 24, kInner = 40, kMatrices = 3;
  const DeviceValues<int32_t> offsets({0, 3, 3, 69});
  const DeviceTensor x(kType, Normal(kRows * kIn, 1, kType));
  const DeviceTensor w(kType, Normal(kMatrices * 2 * kInner * kIn, 2, kType));
  const DeviceTensor bias(kType, Normal(kMatrices * 2 * kInner, 3, kType));
  coxswain_grouped_gated_linear_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.experts = kMatrices;
  args.in_features = kIn;
  args.intermediate = kInner;
  args.alpha = 1.5f;
  args.offsets = offsets.data();
  args.x = x.data();
  args.weight = w.data();
  args.bias = bias.data();
  for (const float limit : {0.0f, 2.0f}) {
    const Twins gate_up{Floats(kRows * 2 * kInner)}, y{Floats(kRows * kInner)};
    GroupedGatedLinearForward({.spec = {.dtype = kType,
                                        .experts = kMatrices,
                                        .in_features = kIn,
                                        .intermediate = kInner,
                                        .alpha = 1.5f,
                                        .limit = limit},
                               .rows = kRows,
                               .offsets = offsets.data(),
                               .x = x.data(),
                               .weight = w.data(),
                               .bias = bias.data(),
                               .gate_up = gate_up.op.data(),
                               .y = y.op.data()},
                              TestStream());
    args.rows = kRows;
    args.limit = limit;
    args.gate_up = gate_up.c.data();
    args.y = y.c.data();
    EXPECT_OK(coxswain_grouped_gated_linear_forward(&args, nullptr));
    gate_up.ExpectSame("gate_up");
    y.ExpectSame("y");
    args.leaves_gate_up = 1;
    EXPECT_OK(coxswain_grouped_gated_linear_forward(&args, nullptr));
    y.ExpectSame("y alone");
    args.leaves_gate_up = 0;
    args.rows = -1;
    EXPECT_REFUSED(coxswain_grouped_gated_linear_forward(&args, nullptr), "rows is -1");
  }
}

TEST(CApiExpertsGpuTest, GroupedLora) {
  constexpr int64_t kRows = 70, kIn = 24, kOut = 40, kMatrices = 3, kRank = 8;
  const GroupedLoraSpec spec{.dtype = kType,
                             .grad_dtype = kFloat,
                             .experts = kMatrices,
                             .in_features = kIn,
                             .out_features = kOut,
                             .rank = kRank,
                             .scale = 0.75f};
  const DeviceValues<int32_t> offsets({0, 3, 3, 69});
  const DeviceTensor x(kType, Normal(kRows * kIn, 1, kType));
  const DeviceTensor a(kType, Normal(kMatrices * kRank * kIn, 2, kType));
  const DeviceTensor b(kType, Normal(kMatrices * kOut * kRank, 3, kType));
  const DeviceTensor dy(kType, Normal(kRows * kOut, 4, kType));
  const Twins h{Floats(kRows * kRank)}, y{Floats(kRows * kOut, 1.0f)};
  const Twins dx{Floats(kRows * kIn, 1.0f)};
  const Twins da(Floats(kMatrices * kRank * kIn, 1.0f), kFloat);
  const Twins db(Floats(kMatrices * kOut * kRank, 1.0f), kFloat);
  const Scratch scratch(GroupedLoraBackwardWorkspaceBytes(spec, kRows));
  GroupedLoraForward(
      {spec, kRows, offsets.data(), x.data(), a.data(), b.data(), h.op.data(), y.op.data()},
      TestStream());
  GroupedLoraBackward({spec, kRows, offsets.data(), x.data(), a.data(), b.data(), h.op.data(),
                       dy.data(), da.op.data(), db.op.data(), dx.op.data(), scratch.workspace()},
                      TestStream());
  coxswain_grouped_lora_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = kRows;
  args.experts = kMatrices;
  args.in_features = kIn;
  args.out_features = kOut;
  args.rank = kRank;
  args.scale = 0.75f;
  args.offsets = offsets.data();
  args.x = x.data();
  args.a = a.data();
  args.b = b.data();
  args.h = h.c.data();
  args.y = y.c.data();
  args.dy = dy.data();
  args.da = da.c.data();
  args.db = db.c.data();
  args.dx = dx.c.data();
  EXPECT_OK(coxswain_grouped_lora_forward(&args, nullptr));
  EXPECT_REFUSED(coxswain_grouped_lora_backward(&args, nullptr), "workspace of 0 bytes");
  EXPECT_EQ(coxswain_grouped_lora_backward_workspace_bytes(&args), scratch.bytes());
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_grouped_lora_backward(&args, nullptr));
  h.ExpectSame("h");
  y.ExpectSame("y");
  da.ExpectSame("da");
  db.ExpectSame("db");
  dx.ExpectSame("dx");
  args.rows = -1;
  EXPECT_REFUSED(coxswain_grouped_lora_forward(&args, nullptr), "rows is -1");
  EXPECT_REFUSED(coxswain_grouped_lora_backward(&args, nullptr), "rows is -1");
}

TEST(CApiExpertsGpuTest, SigmoidGate) {
  const Twins y(Normal(kTokens * kHidden, 1, kType)), x(Normal(kTokens * kHidden, 2, kType));
  const Twins logits(Normal(kTokens, 3, kType));
  const DeviceTensor dy(kType, Normal(kTokens * kHidden, 4, kType));
  const SigmoidGateSpec spec{.dtype = kType, .columns = kHidden};
  SigmoidGateForward({.spec = spec,
                      .rows = kTokens,
                      .logits = logits.op.data(),
                      .x = x.op.data(),
                      .y = y.op.data()},
                     TestStream());
  SigmoidGateBackward({.spec = spec,
                       .rows = kTokens,
                       .logits = logits.op.data(),
                       .x = x.op.data(),
                       .dy = dy.data(),
                       .dx = x.op.data(),
                       .dlogits = logits.op.data()},
                      TestStream());
  coxswain_sigmoid_gate_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = kTokens;
  args.columns = kHidden;
  args.logits = args.dlogits = logits.c.data();
  args.x = args.dx = x.c.data();
  args.y = y.c.data();
  args.dy = dy.data();
  EXPECT_OK(coxswain_sigmoid_gate_forward(&args, nullptr));
  EXPECT_OK(coxswain_sigmoid_gate_backward(&args, nullptr));
  y.ExpectSame("y");
  x.ExpectSame("dx");
  logits.ExpectSame("dlogits");
  args.columns = 0;
  EXPECT_REFUSED(coxswain_sigmoid_gate_forward(&args, nullptr), "SigmoidGate");
}

TEST(CApiExpertsGpuTest, RouterLoss) {
  const DeviceTensor logits(kFloat, Normal(kTokens * kExperts, 1, kFloat));
  const DeviceValues<int32_t> ids({0, 1, 5, 2, -1, -1, 3, 4, 2, 0});
  const DeviceValues<float> factors({0.5f, 0.25f});
  const ValueTwins<double> sums{Doubles(14, 1.0)}, losses{Doubles(2)};
  const Twins dlogits(Floats(kTokens * kExperts), kFloat);
  const Scratch scratch(RouterLossSumsWorkspaceBytes(kLoss, kTokens));
  RouterLossSums(
      {kLoss, kTokens, logits.floats(), ids.data(), true, sums.op.data(), scratch.workspace()},
      TestStream());
  RouterLoss({kLoss, sums.op.data(), losses.op.data()}, TestStream());
  RouterLossGradient({kLoss, kTokens, logits.floats(), ids.data(), sums.op.data(), factors.data(),
                      dlogits.op.floats()},
                     TestStream());
  coxswain_router_loss_args args{};
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.accumulate = 1;
  args.logits = logits.floats();
  args.ids = ids.data();
  args.sums = sums.c.data();
  args.losses = losses.c.data();
  args.factors = factors.data();
  args.dlogits = dlogits.c.floats();
  EXPECT_REFUSED(coxswain_router_loss_sums(&args, nullptr), "workspace of 0 bytes");
  EXPECT_EQ(coxswain_router_loss_sums_workspace_bytes(&args), scratch.bytes());
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_router_loss_sums(&args, nullptr));
  EXPECT_OK(coxswain_router_loss(&args, nullptr));
  EXPECT_OK(coxswain_router_loss_gradient(&args, nullptr));
  sums.ExpectSame("sums");
  losses.ExpectSame("losses");
  dlogits.ExpectSame("dlogits");
  args.tokens = -1;
  EXPECT_REFUSED(coxswain_router_loss_gradient(&args, nullptr), "RouterLoss: tokens is -1");
}

TEST(CApiExpertsGpuTest, UseOfExpertsAndTheBiasThatItMoves) {
  const DeviceTensor logits(kFloat, Normal(kTokens * kExperts, 1, kFloat));
  const Ints chosen = {0, 1, 5, 2, -1, -1, 3, 4, 2, 0};
  const DeviceValues<int32_t> ids(chosen), counts(SortedPairs(kExperts, chosen).counts), skip({0});
  const DeviceValues<float> rate({0.25f});
  const ValueTwins<double> sums{Doubles(8, 1.0)};
  const Twins bias(Floats(kExperts), kFloat);
  const ExpertUseSpec spec{.experts = kExperts, .chosen = kChosen, .score = RouterScore::kSigmoid};
  const Scratch scratch(ExpertUseWorkspaceBytes(spec, kTokens));
  ExpertUse({spec, kTokens, logits.floats(), ids.data(), counts.data(), sums.op.data(),
             scratch.workspace()},
            TestStream());
  BalanceBias({1, kExperts, 8, sums.op.data(), rate.data(), skip.data(), bias.op.floats()},
              TestStream());
  coxswain_expert_use_args args{};
  args.score = COXSWAIN_SIGMOID;
  args.tokens = kTokens;
  args.experts = kExperts;
  args.chosen = kChosen;
  args.logits = logits.floats();
  args.ids = ids.data();
  args.counts = counts.data();
  args.sums = sums.c.data();
  EXPECT_REFUSED(coxswain_expert_use(&args, nullptr), "workspace of 0 bytes");
  EXPECT_EQ(coxswain_expert_use_workspace_bytes(&args), scratch.bytes());
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_expert_use(&args, nullptr));
  sums.ExpectSame("sums");
  coxswain_balance_bias_args move{};
  move.routers = 1;
  move.experts = kExperts;
  move.stride = 8;
  move.counts = sums.c.data();
  move.rate = rate.data();
  move.skip = skip.data();
  move.bias = bias.c.floats();
  EXPECT_OK(coxswain_balance_bias(&move, nullptr));
  bias.ExpectSame("bias");
  args.tokens = -1;
  EXPECT_REFUSED(coxswain_expert_use(&args, nullptr), "ExpertUse: tokens is -1");
}

}  // namespace
}  // namespace gpu_c_api_experts_test
}  // namespace coxswain::kernels
