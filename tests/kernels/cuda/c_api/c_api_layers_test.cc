// The functions of kernels/c_api/c_api.h for layers and the optimizer: the bits of the ops that
// they call.
#include <utility>

#include "kernels/activations/gates.h"
#include "kernels/attention/heads.h"
#include "kernels/lora/lora_linear.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/products/bias.h"
#include "kernels/products/gated_linear.h"
#include "kernels/products/gemm.h"
#include "kernels/tensors/rows.h"
#include "kernels/tensors/whole_tensors.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_layers_test {
namespace {

constexpr DType kType = DType::kBFloat16;

TEST(CApiLayersGpuTest, GatedUnits) {
  const int64_t rows = 5, n = 24;
  for (const int32_t erf : {0, 1}) {
    const Twins gate_up(Normal(rows * 2 * n, 1, kType)), y(Floats(Size(rows * n)));
    const Twins dy(Normal(rows * n, 2, kType));
    coxswain_geglu_args args{};
    args.dtype = COXSWAIN_BFLOAT16;
    args.erf = erf;
    args.rows = rows;
    args.intermediate = n;
    args.dy = dy.c.data();
    args.gate_up = gate_up.c.data();
    args.y = y.c.data();
    const GegluSpec spec{.dtype = kType, .intermediate = n, .tanh = erf == 0};
    EXPECT_OK(coxswain_geglu_forward(&args, nullptr));
    GegluForward({.spec = spec, .rows = rows, .gate_up = gate_up.op.data(), .y = y.op.data()},
                 TestStream());
    y.ExpectSame("GeGLU");
    args.y = nullptr;
    EXPECT_OK(coxswain_geglu_backward(&args, nullptr));
    GegluBackward({.spec = spec, .rows = rows, .dy = dy.op.data(), .gate_up = gate_up.op.data()},
                  TestStream());
    gate_up.ExpectSame("gradient of GeGLU");
  }
}

TEST(CApiLayersGpuTest, SwigluWhoseBackwardGivesTheOutputAgain) {
  const int64_t rows = 5, n = 24;
  const Twins gate_up(Normal(rows * 2 * n, 1, kType)), y(Floats(Size(rows * n)));
  const DeviceTensor dy(kType, Normal(rows * n, 2, kType));
  const SwigluSpec spec{.dtype = kType, .intermediate = n};
  coxswain_swiglu_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = rows;
  args.intermediate = n;
  args.dy = dy.data();
  args.gate_up = gate_up.c.data();
  args.y = y.c.data();
  EXPECT_OK(coxswain_swiglu_forward(&args, nullptr));
  SwigluForward({.spec = spec, .rows = rows, .gate_up = gate_up.op.data(), .y = y.op.data()},
                TestStream());
  y.ExpectSame("SwiGLU");
  const Twins again(Floats(Size(rows * n)));
  args.y = again.c.data();
  EXPECT_OK(coxswain_swiglu_backward(&args, nullptr));
  SwigluBackward({.spec = spec,
                  .rows = rows,
                  .dy = dy.data(),
                  .gate_up = gate_up.op.data(),
                  .y = again.op.data()},
                 TestStream());
  gate_up.ExpectSame("gradient of SwiGLU");
  again.ExpectSame("y again");
  EXPECT_TRUE(SameBits(again.c.Read(), y.c.Read()));
}

TEST(CApiLayersGpuTest, ClampedSwiglu) {
  const int64_t rows = 5, n = 24;
  const Twins gate_up(Normal(rows * 2 * n, 1, kType, 5.0f)), y(Floats(Size(rows * n)));
  const DeviceTensor dy(kType, Normal(rows * n, 2, kType));
  const ClampedSwigluSpec spec{.dtype = kType, .intermediate = n, .alpha = 1.702f, .limit = 7.0f};
  coxswain_clamped_swiglu_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = rows;
  args.intermediate = n;
  args.alpha = spec.alpha;
  args.limit = spec.limit;
  args.dy = dy.data();
  args.gate_up = gate_up.c.data();
  args.y = y.c.data();
  EXPECT_OK(coxswain_clamped_swiglu_forward(&args, nullptr));
  ClampedSwigluForward({.spec = spec, .rows = rows, .gate_up = gate_up.op.data(), .y = y.op.data()},
                       TestStream());
  y.ExpectSame("y");
  args.y = nullptr;
  EXPECT_OK(coxswain_clamped_swiglu_backward(&args, nullptr));
  ClampedSwigluBackward({.spec = spec, .rows = rows, .dy = dy.data(), .gate_up = gate_up.op.data()},
                        TestStream());
  gate_up.ExpectSame("gradient of the clamped gate");
  args.limit = 0;
  EXPECT_REFUSED(coxswain_clamped_swiglu_forward(&args, nullptr), "ClampedSwiglu");
}

TEST(CApiLayersGpuTest, Gelu) {
  const int64_t rows = 5, n = 24;
  const Twins x(Normal(rows * n, 1, kType)), y(Floats(Size(rows * n)));
  const Twins dy(Normal(rows * n, 2, kType));
  coxswain_gelu_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.erf = 1;
  args.rows = rows;
  args.columns = n;
  args.dy = dy.c.data();
  args.x = x.c.data();
  args.y = y.c.data();
  const GeluSpec spec{.dtype = kType, .columns = n, .tanh = false};
  EXPECT_OK(coxswain_gelu_forward(&args, nullptr));
  GeluForward({.spec = spec, .rows = rows, .x = x.op.data(), .y = y.op.data()}, TestStream());
  y.ExpectSame("GELU");
  EXPECT_OK(coxswain_gelu_backward(&args, nullptr));
  GeluBackward({.spec = spec, .rows = rows, .dy = dy.op.data(), .x = x.op.data()}, TestStream());
  x.ExpectSame("gradient of GELU");
}

TEST(CApiLayersGpuTest, GatedLinear) {
  const int64_t rows = 66, hidden = 72, n = 40;
  const DeviceTensor x(kType, Normal(rows * hidden, 1, kType));
  const DeviceTensor weight(kType, Normal(2 * n * hidden, 2, kType, 0.1f));
  const Scratch scratch(GemmWorkspaceBytes());
  EXPECT_EQ(coxswain_gemm_workspace_bytes(), GemmWorkspaceBytes());
  for (const auto& [activation, number] : {std::pair{GateActivation::kSilu, COXSWAIN_SILU},
                                           {GateActivation::kGeluTanh, COXSWAIN_GELU_TANH},
                                           {GateActivation::kGelu, COXSWAIN_GELU}}) {
    const Twins gate_up(Floats(Size(rows * 2 * n))), y(Floats(Size(rows * n)));
    const GatedLinearSpec spec{
        .dtype = kType, .hidden = hidden, .intermediate = n, .activation = activation};
    coxswain_gated_linear_args args{};
    args.dtype = COXSWAIN_BFLOAT16;
    args.activation = number;
    args.rows = rows;
    args.hidden = hidden;
    args.intermediate = n;
    args.x = x.data();
    args.weight = weight.data();
    args.gate_up = gate_up.c.data();
    args.y = y.c.data();
    args.wants_y = 1;
    args.workspace = Lent(scratch);
    EXPECT_OK(coxswain_gated_linear_forward(&args, nullptr));
    Synchronize(nullptr);  // one scratch
    GatedLinearForward({.spec = spec,
                        .rows = rows,
                        .x = x.data(),
                        .weight = weight.data(),
                        .gate_up = gate_up.op.data(),
                        .y = y.op.data(),
                        .workspace = scratch.workspace()},
                       TestStream());
    gate_up.ExpectSame("gate and up");
    y.ExpectSame("gated linear");
    EXPECT_OK(coxswain_gated_linear_backward(&args, nullptr));
    Synchronize(nullptr);
    GatedLinearBackward({.spec = spec,
                         .rows = rows,
                         .dout = x.data(),
                         .weight = weight.data(),
                         .gate_up = gate_up.op.data(),
                         .y = y.op.data(),
                         .wants_y = true,
                         .workspace = scratch.workspace()},
                        TestStream());
    gate_up.ExpectSame("gradient of gate and up");
    y.ExpectSame("y again");
  }
}

TEST(CApiLayersGpuTest, QkNorm) {
  const int64_t tokens = 7, heads = 3, kv_heads = 1, dim = 16;
  const Twins qkv(Normal(tokens * (heads + 2 * kv_heads) * dim, 1, kType));
  const Twins saved(Floats(Size(tokens * (heads + kv_heads) * dim)));
  const Twins rstd(Floats(Size(tokens * (heads + kv_heads))), DType::kFloat32);
  const DeviceTensor weight(kType, Normal(dim, 2, kType));
  const Twins dq(Floats(Size(dim)), DType::kFloat32), dk(Floats(Size(dim)), DType::kFloat32);
  const QkNormSpec spec{.dtype = kType,
                        .num_heads = heads,
                        .num_kv_heads = kv_heads,
                        .head_dim = dim,
                        .eps = 1e-5f,
                        .weight_offset = 1.0f};
  coxswain_qk_norm_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.num_heads = heads;
  args.num_kv_heads = kv_heads;
  args.head_dim = dim;
  args.eps = 1e-5f;
  args.weight_offset = 1.0f;
  args.tokens = tokens;
  args.qkv = qkv.c.data();
  args.saved_qk = saved.c.data();
  args.rstd = rstd.c.floats();
  args.q_weight = weight.data();
  args.k_weight = weight.data();
  args.dq_weight = dq.c.data();
  args.dk_weight = dk.c.data();
  EXPECT_OK(coxswain_qk_norm_forward(&args, nullptr));
  QkNormForward({.spec = spec,
                 .tokens = tokens,
                 .qkv = qkv.op.data(),
                 .q_weight = weight.data(),
                 .k_weight = weight.data(),
                 .saved_qk = saved.op.data(),
                 .rstd = rstd.op.floats()},
                TestStream());
  qkv.ExpectSame("norm of q and k");
  const Scratch scratch(coxswain_qk_norm_backward_workspace_bytes(&args));
  EXPECT_EQ(scratch.bytes(), QkNormBackwardWorkspaceBytes(spec, tokens));
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_qk_norm_backward(&args, nullptr));
  Synchronize(nullptr);
  QkNormBackward({.spec = spec,
                  .tokens = tokens,
                  .dqkv = qkv.op.data(),
                  .saved_qk = saved.op.data(),
                  .rstd = rstd.op.floats(),
                  .q_weight = weight.data(),
                  .k_weight = weight.data(),
                  .dq_weight = dq.op.data(),
                  .dk_weight = dk.op.data(),
                  .workspace = scratch.workspace()},
                 TestStream());
  qkv.ExpectSame("its gradient");
  dq.ExpectSame("gradient of the weight of q");
  dk.ExpectSame("gradient of the weight of k");
}

TEST(CApiLayersGpuTest, EmbeddingOfAScaleThatIsLeftOut) {
  const int64_t vocab = 9, hidden = 24, tokens = 4;
  const DeviceValues<int32_t> ids({3, 8, 3, 0});
  const DeviceTensor weight(kType, Normal(vocab * hidden, 1, kType));
  const Twins out(Floats(Size(tokens * hidden)));
  const Twins dweight(Floats(Size(vocab * hidden)), DType::kFloat32);
  coxswain_embedding_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.vocab = vocab;
  args.hidden = hidden;
  args.tokens = tokens;
  args.ids = ids.data();
  args.weight = weight.data();
  args.out = out.c.data();
  args.dout = out.c.data();
  args.dweight = dweight.c.data();
  const EmbeddingSpec spec{.dtype = kType, .vocab = vocab, .hidden = hidden};
  EXPECT_OK(coxswain_embedding_forward(&args, nullptr));
  EmbeddingForward({.spec = spec,
                    .tokens = tokens,
                    .ids = ids.data(),
                    .weight = weight.data(),
                    .out = out.op.data()},
                   TestStream());
  out.ExpectSame("rows");
  const Scratch scratch(coxswain_embedding_backward_workspace_bytes(&args));
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_embedding_backward(&args, nullptr));
  Synchronize(nullptr);
  EmbeddingBackward({.spec = spec,
                     .tokens = tokens,
                     .ids = ids.data(),
                     .dout = out.op.data(),
                     .dweight = dweight.op.data(),
                     .workspace = scratch.workspace()},
                    TestStream());
  dweight.ExpectSame("their gradient");
  args.begin = 5;
  args.end = 100;
  EXPECT_OK(coxswain_embedding_backward(&args, nullptr));
  Synchronize(nullptr);
  EmbeddingBackward({.spec = spec,
                     .tokens = tokens,
                     .ids = ids.data(),
                     .dout = out.op.data(),
                     .dweight = dweight.op.data(),
                     .begin = 5,
                     .end = 100,
                     .workspace = scratch.workspace()},
                    TestStream());
  dweight.ExpectSame("a part of their gradient");
}

TEST(CApiLayersGpuTest, BiasAndRows) {
  const int64_t rows = 6, columns = 24;
  const DeviceTensor dy(kType, Normal(rows * columns, 1, kType));
  const Twins dbias(Normal(columns, 2, DType::kFloat32), DType::kFloat32);
  coxswain_bias_args bias{};
  bias.dtype = COXSWAIN_BFLOAT16;
  bias.rows = rows;
  bias.columns = columns;
  bias.dy = dy.data();
  bias.dbias = dbias.c.data();
  const Scratch scratch(coxswain_bias_backward_workspace_bytes(&bias));
  bias.workspace = Lent(scratch);
  EXPECT_OK(coxswain_bias_backward(&bias, nullptr));
  Synchronize(nullptr);
  BiasBackward({.spec = {.dtype = kType},
                .rows = rows,
                .columns = columns,
                .dy = dy.data(),
                .ldy = columns,
                .dbias = dbias.op.data(),
                .workspace = scratch.workspace()},
               TestStream());
  dbias.ExpectSame("gradient of the bias");
  const DeviceValues<int32_t> index({5, -1, 0});
  const Twins few(Floats(Size(3 * columns))), tall(Normal(rows * columns, 3, kType));
  coxswain_row_gather_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = 3;
  args.columns = columns;
  args.index = index.data();
  args.in = dy.data();
  args.out = few.c.data();
  RowGatherArgs op{.spec = {.dtype = kType, .columns = columns},
                   .rows = 3,
                   .index = index.data(),
                   .in = dy.data(),
                   .out = few.op.data()};
  EXPECT_OK(coxswain_gather_rows(&args, nullptr));
  GatherRows(op, TestStream());
  few.ExpectSame("gathered rows");
  args.in = few.c.data();
  args.out = tall.c.data();
  op.in = few.op.data();
  op.out = tall.op.data();
  EXPECT_OK(coxswain_scatter_add_rows(&args, nullptr));
  ScatterAddRows(op, TestStream());
  tall.ExpectSame("scattered rows");
}

TEST(CApiLayersGpuTest, LoraLinearOfTwoMembersWithDropout) {
  const int64_t rows = 33, in = 48, rank = 8, ldy = 56;
  const DeviceValues<uint32_t> step({7}), places(std::vector<uint32_t>(33, 2));
  const DeviceTensor x(kType, Normal(rows * in, 1, kType)),
      a(kType, Normal(2 * rank * in, 2, kType));
  const DeviceTensor b0(kType, Normal(24 * rank, 3, kType)), b1(kType, Normal(32 * rank, 4, kType));
  const DeviceTensor w(kType, Normal(ldy * in, 6, kType)), bias(kType, Normal(ldy, 7, kType));
  const Twins h(Floats(Size(rows * 2 * rank))), y(Normal(rows * ldy, 5, kType));
  coxswain_lora_linear_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.members = 2;
  args.in_features = in;
  args.rank = rank;
  args.out_features[0] = 24;
  args.out_features[1] = 32;
  args.column_offset[0] = 0;
  args.column_offset[1] = 24;
  args.ldy = ldy;
  args.scale = 2.0f;
  args.dropout_rate = 0.25f;
  args.key[0] = 1;
  args.key[1] = 2;
  args.site = 3;
  args.step = step.data();
  args.bins = places.data();
  args.positions = places.data();
  args.rows = rows;
  args.x = x.data();
  args.weight = w.data();
  args.bias = bias.data();
  args.a = a.data();
  args.b[0] = b0.data();
  args.b[1] = b1.data();
  args.h = h.c.data();
  args.y = y.c.data();
  args.accumulate_y = 1;
  const Twins db0(Floats(Size(24 * rank)), DType::kFloat32);
  const Twins db1(Floats(Size(32 * rank)), DType::kFloat32);
  const LoraMember members[] = {
      {.out_features = 24, .column_offset = 0, .b = b0.data(), .db = db0.op.data()},
      {.out_features = 32, .column_offset = 24, .b = b1.data(), .db = db1.op.data()}};
  const LoraLinearSpec spec{.dtype = kType,
                            .in_features = in,
                            .rank = rank,
                            .members = members,
                            .ldy = ldy,
                            .scale = 2.0f,
                            .dropout_rate = 0.25f};
  const DropoutMask mask{.key = {1, 2},
                         .site = 3,
                         .step = step.data(),
                         .bins = places.data(),
                         .positions = places.data()};
  const Scratch forward(coxswain_lora_linear_forward_workspace_bytes(&args));
  args.workspace = Lent(forward);
  EXPECT_OK(coxswain_lora_linear_forward(&args, nullptr));
  Synchronize(nullptr);
  LoraLinearForward({.spec = spec,
                     .mask = mask,
                     .rows = rows,
                     .x = x.data(),
                     .weight = w.data(),
                     .bias = bias.data(),
                     .a = a.data(),
                     .h = h.op.data(),
                     .y = y.op.data(),
                     .accumulate_y = true,
                     .workspace = forward.workspace()},
                    TestStream());
  h.ExpectSame("h");
  y.ExpectSame("y");
  const Twins da(Floats(Size(2 * rank * in)), DType::kFloat32);
  const Twins dx(Floats(Size(rows * in)));
  args.dy = y.c.data();
  args.da = da.c.data();
  args.db[0] = db0.c.data();
  args.db[1] = db1.c.data();
  args.dx = dx.c.data();
  const Scratch backward(coxswain_lora_linear_backward_workspace_bytes(&args));
  args.workspace = Lent(backward);
  EXPECT_OK(coxswain_lora_linear_backward(&args, nullptr));
  Synchronize(nullptr);
  LoraLinearBackward({.spec = spec,
                      .mask = mask,
                      .rows = rows,
                      .x = x.data(),
                      .weight = w.data(),
                      .a = a.data(),
                      .h = h.op.data(),
                      .dy = y.op.data(),
                      .da = da.op.data(),
                      .dx = dx.op.data(),
                      .workspace = backward.workspace()},
                     TestStream());
  for (const Twins* t : {&da, &db0, &db1, &dx}) t->ExpectSame("gradients");
}

// Norm, clip decision and update of one list, as a caller in C writes it.
TEST(CApiLayersGpuTest, ClippedUpdate) {
  const int64_t n = COXSWAIN_TENSOR_CHUNK + 5;
  const DeviceTensor g(DType::kFloat32, Normal(n, 1, DType::kFloat32));
  const Twins p(Normal(n, 2, DType::kFloat32), DType::kFloat32);
  const Twins m(Floats(Size(n)), DType::kFloat32), v(Floats(Size(n)), DType::kFloat32);
  coxswain_adamw_tensor tensor{};
  tensor.p = p.c.data();
  tensor.g = g.data();
  tensor.m = m.c.floats();
  tensor.v = v.c.floats();
  tensor.n = n;
  tensor.lr_scale = 1.0;
  tensor.weight_decay = 0.1;
  const DeviceValues<coxswain_adamw_tensor> tensors({tensor});
  const DeviceValues<AdamWTensor> twin_tensors({{.p = p.op.data(),
                                                 .g = g.data(),
                                                 .m = m.op.floats(),
                                                 .v = v.op.floats(),
                                                 .n = n,
                                                 .weight_decay = 0.1}});
  coxswain_optimizer_scalars first{};
  first.lr = 0.01;
  first.beta1 = 0.9;
  first.beta2 = 0.99;
  first.eps = 1e-8;
  first.clip_factor = 1.0;
  const DeviceValues<coxswain_optimizer_scalars> scalars({first});
  const DeviceValues<OptimizerScalars> twin_scalars({{.lr = 0.01, .beta2 = 0.99}});
  coxswain_norm_tensor squared{};
  squared.data = g.data();
  squared.elements = n;
  const DeviceValues<coxswain_norm_tensor> norm_tensors({squared});
  const DeviceValues<coxswain_norm_sums> sums(std::vector<coxswain_norm_sums>(1));
  const DeviceValues<double> norm({0.0});
  coxswain_global_norm_args global{};
  global.tensors = norm_tensors.data();
  global.count = 1;
  global.chunks = 2;
  global.sums = sums.data();
  const Scratch scratch(coxswain_global_norm_workspace_bytes(&global));
  global.workspace = Lent(scratch);
  EXPECT_OK(coxswain_global_norm(&global, nullptr));
  const DeviceValues<coxswain_norm_sums> own(std::vector<coxswain_norm_sums>(1));
  const DeviceValues<coxswain_tensor_bits> bits(std::vector<coxswain_tensor_bits>(1));
  coxswain_tensor_norms_args norms{};
  norms.tensors = norm_tensors.data();
  norms.count = 1;
  norms.chunk_sums = static_cast<const coxswain_norm_sums*>(global.workspace.data);
  norms.sums = own.data();
  EXPECT_OK(coxswain_tensor_norms(&norms, nullptr));
  coxswain_checksum_tensors_args checksums{};
  checksums.tensors = norm_tensors.data();
  checksums.count = 1;
  checksums.chunks = 2;
  checksums.bits = bits.data();
  EXPECT_OK(coxswain_checksum_tensors(&checksums, nullptr));
  Synchronize(nullptr);
  EXPECT_NEAR(own.Read()[0].sum_squares / sums.Read()[0].sum_squares, 1.0, 1e-14);
  const DeviceValues<uint64_t> checksum({0});
  Checksum({.count = n, .values = g.data(), .sum = checksum.data()}, TestStream());
  EXPECT_EQ(bits.Read()[0].checksum, checksum.Read()[0]);
  EXPECT_EQ(bits.Read()[0].nonzero, 1u);
  norms.count = checksums.chunks = -1;
  EXPECT_REFUSED(coxswain_tensor_norms(&norms, nullptr), "TensorNorms: count is -1");
  EXPECT_REFUSED(coxswain_checksum_tensors(&checksums, nullptr), "ChecksumTensors: chunks is -1");
  coxswain_decide_update_args decide{};
  decide.sums = sums.data();
  decide.max_norm = 1.0;
  decide.scalars = scalars.data();
  decide.norm = norm.data();
  EXPECT_OK(coxswain_decide_update(&decide, nullptr));
  coxswain_adamw_args update{};
  update.tensors = tensors.data();
  update.count = 1;
  update.chunks = 2;
  update.scalars = scalars.data();
  EXPECT_OK(coxswain_adamw(&update, nullptr));
  Synchronize(nullptr);
  const DeviceValues<NormSums> twin_sums(std::vector<NormSums>(1));
  const DeviceValues<NormTensor> twin_norm_tensors({{.data = g.data(), .elements = n}});
  GlobalNorm({.tensors = twin_norm_tensors.data(),
              .count = 1,
              .chunks = 2,
              .sums = twin_sums.data(),
              .workspace = scratch.workspace()},
             TestStream());
  DecideUpdate({.sums = twin_sums.data(),
                .max_norm = 1.0,
                .scalars = twin_scalars.data(),
                .norm = norm.data()},
               TestStream());
  AdamW({.tensors = twin_tensors.data(), .count = 1, .chunks = 2, .scalars = twin_scalars.data()},
        TestStream());
  for (const Twins* t : {&p, &m, &v}) t->ExpectSame("parameters and moments");
  EXPECT_LT(scalars.Read()[0].clip_factor, 1.0);
  EXPECT_EQ(scalars.Read()[0].applied_updates, 1);
}

}  // namespace
}  // namespace gpu_c_api_layers_test
}  // namespace coxswain::kernels
