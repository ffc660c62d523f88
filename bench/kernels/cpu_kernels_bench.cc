// Time of every CPU op at the shapes of two models, against what this machine can do.
//   bench/cpu_kernels_bench [--threads N] [--json FILE]     default bench/results/cpu_kernels.json
// Best, median and 90th percentile of at least 15 runs and 0.2 s; speeds are those of the best run,
// which other load on the machine disturbs least. Bytes are the minimal traffic of the op (each
// input read once, each output written once, read-modify-write counted twice), FLOPs those of its
// products without masked scores; percent is of the copy bandwidth (64 MiB copied, bytes read and
// written) or of sgemm at 1,024 cubed, both measured first. Small tensors stay in cache and may
// exceed 100 % of the copy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/report.h"
#include "kernels/activations/dropout.h"
#include "kernels/activations/gates.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/heads.h"
#include "kernels/cpu/blas_core.h"
#include "kernels/device.h"
#include "kernels/lora/lora_linear.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/norms/norms.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/products/bias.h"
#include "kernels/products/gemm.h"
#include "kernels/rope.h"
#include "kernels/tensors/rows.h"

namespace coxswain::kernels {
namespace {

struct Model {
  const char* name;
  int64_t tokens, hidden, intermediate, vocab, heads, kv_heads, head_dim, document, head_rows;
  int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
};

// The quickstart's model with one worker's half of a step; and Qwen2.5-0.5B with fewer head rows.
constexpr Model kModels[] = {
    {"tiny_4m", 1024, 256, 704, 4096, 4, 2, 64, 160, 1024},
    {"qwen2.5_0.5b", 1024, 896, 4864, 151936, 14, 2, 64, 512, 64},
};

struct Timing {
  double best, median, p90;  // seconds
};

Timing Measure(const std::function<void()>& fn) {
  using Clock = std::chrono::steady_clock;
  fn();
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < 15 || total < 0.2) {
    const auto start = Clock::now();
    fn();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += seconds.back();
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[0], seconds[seconds.size() / 2], seconds[seconds.size() * 9 / 10]};
}

// Normal values: ops whose speed depends on the data (exponentials) see ordinary ones.
std::vector<float> Values(int64_t n) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

class Table {
 public:
  Table(double copy_gb, double gemm_gflop) : copy_gb_(copy_gb), gemm_gflop_(gemm_gflop) {
    std::printf("%-14s %-26s %10s %10s %10s %9s %9s %6s\n", "model", "op", "best us", "median us",
                "p90 us", "GB/s", "GFLOP/s", "%");
  }

  // Exactly one of bytes and flops is what bounds the op; the other is 0.
  void Add(const Model& model, const char* op, double bytes, double flops,
           const std::function<void()>& fn) {
    const Timing t = Measure(fn);
    const double gb = bytes / t.best * 1e-9, gflop = flops / t.best * 1e-9;
    const double percent = 100 * (bytes > 0 ? gb / copy_gb_ : gflop / gemm_gflop_);
    std::printf("%-14s %-26s %10.1f %10.1f %10.1f %9.1f %9.1f %6.0f\n", model.name, op,
                t.best * 1e6, t.median * 1e6, t.p90 * 1e6, gb, gflop, percent);
    rows_.push_back({{"model", model.name},
                     {"op", op},
                     {"best_us", t.best * 1e6},
                     {"median_us", t.median * 1e6},
                     {"p90_us", t.p90 * 1e6},
                     {"gb_per_s", gb},
                     {"gflop_per_s", gflop},
                     {"percent_of_roofline", percent}});
  }

  nlohmann::json json() const {
    return {{"device", DeviceFingerprint()},
            {"copy_gb_per_s", copy_gb_},
            {"sgemm_gflop_per_s", gemm_gflop_},
            {"rows", rows_}};
  }

 private:
  double copy_gb_, gemm_gflop_;
  nlohmann::json rows_ = nlohmann::json::array();
};

double CopyBandwidth() {
  const int64_t bytes = 64 << 20;
  std::vector<float> from = Values(bytes / 4), to(from.size());
  const Timing t = Measure([&] { CopyMemory(to.data(), from.data(), bytes, nullptr); });
  return 2.0 * static_cast<double>(bytes) / t.best * 1e-9;
}

struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  float beta;
};

std::function<void()> GemmRun(const Product& p) {
  auto a = Values(p.m * p.k), b = Values(p.k * p.n), c = Values(p.m * p.n);
  return [=]() mutable {
    Gemm({.spec = {.transpose_a = p.transpose_a, .transpose_b = p.transpose_b},
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .a = a.data(),
          .lda = p.transpose_a ? p.m : p.k,
          .b = b.data(),
          .ldb = p.transpose_b ? p.k : p.n,
          .beta = p.beta,
          .c = c.data(),
          .ldc = p.n},
         nullptr);
  };
}

double Flops(const Product& p) { return 2.0 * static_cast<double>(p.m * p.n * p.k); }

double GemmSpeed() {
  const Product p{1024, 1024, 1024, false, false, 0.0f};
  return Flops(p) / Measure(GemmRun(p)).best * 1e-9;
}

void BenchGemm(const Model& m, Table* table) {
  const int64_t t = m.tokens;
  const auto add = [&](const char* op, const Product& p) {
    table->Add(m, op, 0, Flops(p), GemmRun(p));
  };
  add("gemm gate_up forward", {t, 2 * m.intermediate, m.hidden, false, true, 0.0f});
  add("gemm gate_up dgrad", {t, m.hidden, 2 * m.intermediate, false, false, 0.0f});
  add("gemm gate_up wgrad", {2 * m.intermediate, m.hidden, t, true, false, 1.0f});
  add("gemm lm_head forward", {m.head_rows, m.vocab, m.hidden, false, true, 0.0f});
}

void BenchNorms(const Model& m, Table* table) {
  const RmsNormSpec spec{.hidden = m.hidden};
  auto x = Values(m.tokens * m.hidden), residual = x, sum = x, y = x, dx = x;
  auto weight = Values(m.hidden), dweight = weight, rstd = Values(m.tokens);
  std::vector<char> scratch(static_cast<size_t>(RmsNormBackwardWorkspaceBytes(spec, m.tokens)));
  const double size = static_cast<double>(m.tokens * m.hidden) * 4;
  table->Add(m, "add_rms_norm forward", 4 * size, 0, [&] {
    AddRmsNormForward({.spec = spec,
                       .rows = m.tokens,
                       .x = x.data(),
                       .residual = residual.data(),
                       .weight = weight.data(),
                       .sum = sum.data(),
                       .y = y.data(),
                       .rstd = rstd.data()},
                      nullptr);
  });
  table->Add(m, "rms_norm backward", 4 * size, 0, [&] {
    RmsNormBackward({.spec = spec,
                     .rows = m.tokens,
                     .dy = y.data(),
                     .x = x.data(),
                     .weight = weight.data(),
                     .rstd = rstd.data(),
                     .dx = dx.data(),
                     .dweight = dweight.data(),
                     .workspace = {scratch.data(), static_cast<int64_t>(scratch.size())}},
                    nullptr);
  });
}

void BenchRotations(const Model& m, Table* table) {
  auto qkv = Values(m.tokens * m.row());
  const RopeTable angles = BuildRopeTable({.rotated = m.head_dim}, m.document);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < m.tokens; ++t) positions.push_back(static_cast<int32_t>(t % m.document));
  const double size = static_cast<double>(m.tokens * (m.heads + m.kv_heads) * m.head_dim) * 4;
  table->Add(m, "rope", 2 * size, 0, [&] {
    RopeForward({.spec = {.num_heads = m.heads, .num_kv_heads = m.kv_heads, .head_dim = m.head_dim},
                 .tokens = m.tokens,
                 .qkv = qkv.data(),
                 .cos = angles.cos.data(),
                 .sin = angles.sin.data(),
                 .positions = positions.data()},
                nullptr);
  });
  const QkNormSpec spec{.num_heads = m.heads, .num_kv_heads = m.kv_heads, .head_dim = m.head_dim};
  auto weight = Values(m.head_dim), saved = Values(m.tokens * m.row());
  auto rstd = Values(m.tokens * (m.heads + m.kv_heads));
  table->Add(m, "qk_norm forward", 3 * size, 0, [&] {
    QkNormForward({.spec = spec,
                   .tokens = m.tokens,
                   .qkv = qkv.data(),
                   .q_weight = weight.data(),
                   .k_weight = weight.data(),
                   .saved_qk = saved.data(),
                   .rstd = rstd.data()},
                  nullptr);
  });
}

void BenchAttention(const Model& m, Table* table) {
  const AttentionSpec spec{
      .num_heads = m.heads, .num_kv_heads = m.kv_heads, .head_dim = m.head_dim, .scale = 0.125f};
  std::vector<int32_t> cu = {0};
  double scores = 0;  // visible pairs of all heads
  while (cu.back() < m.tokens) {
    const int64_t length = std::min(m.document, m.tokens - cu.back());
    cu.push_back(cu.back() + static_cast<int32_t>(length));
    scores += static_cast<double>(m.heads * length * (length + 1)) / 2;
  }
  const Documents documents{.count = static_cast<int64_t>(cu.size()) - 1,
                            .cu_seqlens = cu.data(),
                            .max_length = m.document};
  auto qkv = Values(m.tokens * m.row()), dqkv = qkv;
  auto out = Values(m.tokens * m.heads * m.head_dim), dout = out, lse = Values(m.tokens * m.heads);
  std::vector<char> scratch(static_cast<size_t>(AttentionBackwardWorkspaceBytes(
                                spec, {.tokens = m.tokens, .max_length = m.document})) +
                            64);
  const Workspace workspace{scratch.data(), static_cast<int64_t>(scratch.size())};
  const double product = 2 * scores * static_cast<double>(m.head_dim);
  table->Add(m, "attention forward", 0, 2 * product, [&] {
    AttentionForward({.spec = spec,
                      .tokens = m.tokens,
                      .documents = documents,
                      .in = PackedInputs(spec, qkv.data()),
                      .out = out.data(),
                      .lse = lse.data(),
                      .workspace = workspace},
                     nullptr);
  });
  table->Add(m, "attention backward", 0, 5 * product, [&] {
    AttentionBackward({.spec = spec,
                       .tokens = m.tokens,
                       .documents = documents,
                       .in = PackedInputs(spec, qkv.data()),
                       .out = out.data(),
                       .lse = lse.data(),
                       .dout = dout.data(),
                       .gradients = PackedOutputs(spec, dqkv.data()),
                       .workspace = workspace},
                      nullptr);
  });
}

void BenchSwiglu(const Model& m, Table* table) {
  const SwigluSpec spec{.intermediate = m.intermediate};
  const auto original = Values(m.tokens * 2 * m.intermediate);
  auto gate_up = original, y = Values(m.tokens * m.intermediate);
  const double size = static_cast<double>(m.tokens * m.intermediate) * 4;
  table->Add(m, "swiglu forward", 3 * size, 0, [&] {
    SwigluForward({.spec = spec, .rows = m.tokens, .gate_up = gate_up.data(), .y = y.data()},
                  nullptr);
  });
  table->Add(m, "swiglu backward", 5 * size, 0, [&] {
    SwigluBackward({.spec = spec, .rows = m.tokens, .dy = y.data(), .gate_up = gate_up.data()},
                   nullptr);
  });
}

void BenchLora(const Model& m, Table* table) {
  auto b = Values(m.intermediate * 8), db = b;
  const LoraMember members[] = {
      {.out_features = m.intermediate, .column_offset = 0, .b = b.data(), .db = db.data()},
      {.out_features = m.intermediate,
       .column_offset = m.intermediate,
       .b = b.data(),
       .db = db.data()}};
  const LoraLinearSpec spec{.in_features = m.hidden,
                            .rank = 8,
                            .members = members,
                            .ldy = 2 * m.intermediate,
                            .scale = 2.0f};
  auto x = Values(m.tokens * m.hidden), dx = x, a = Values(16 * m.hidden), da = a;
  auto h = Values(m.tokens * 16), weight = Values(2 * m.intermediate * m.hidden);
  auto y = Values(m.tokens * 2 * m.intermediate);
  std::vector<char> scratch(static_cast<size_t>(LoraLinearBackwardWorkspaceBytes(spec, m.tokens)));
  const Workspace workspace{scratch.data(), static_cast<int64_t>(scratch.size())};
  const double base = 4.0 * static_cast<double>(m.tokens * m.hidden * m.intermediate);
  const double forward =
      2.0 * static_cast<double>(m.tokens * (16 * m.hidden + 16 * m.intermediate));
  table->Add(m, "lora gate_up r=8 forward", 0, base + forward, [&] {
    LoraLinearForward({.spec = spec,
                       .rows = m.tokens,
                       .x = x.data(),
                       .weight = weight.data(),
                       .a = a.data(),
                       .h = h.data(),
                       .y = y.data(),
                       .workspace = workspace},
                      nullptr);
  });
  table->Add(m, "lora gate_up r=8 backward", 0, base + 2 * forward, [&] {
    LoraLinearBackward({.spec = spec,
                        .rows = m.tokens,
                        .x = x.data(),
                        .weight = weight.data(),
                        .a = a.data(),
                        .h = h.data(),
                        .dy = y.data(),
                        .da = da.data(),
                        .dx = dx.data(),
                        .workspace = workspace},
                       nullptr);
  });
  const uint32_t step = 0;
  const std::vector<uint32_t> words(static_cast<size_t>(m.tokens), 1);
  const double size = static_cast<double>(m.tokens * m.hidden) * 4;
  table->Add(m, "dropout", 2 * size, 0, [&] {
    DropoutApply({.spec = {.columns = m.hidden, .rate = 0.1f},
                  .mask = {.step = &step, .bins = words.data(), .positions = words.data()},
                  .rows = m.tokens,
                  .x = x.data(),
                  .y = dx.data()},
                 nullptr);
  });
}

void BenchHead(const Model& m, Table* table) {
  const auto original = Values(m.head_rows * m.vocab);
  auto logits = original, loss = Values(m.head_rows);
  const std::vector<int32_t> targets(static_cast<size_t>(m.head_rows), 5);
  const float scale = 1e-3f;
  const double size = static_cast<double>(m.head_rows * m.vocab) * 4;
  const auto run = [&](const float* gradient_scale) {
    CrossEntropy({.spec = {.vocab = m.vocab},
                  .rows = m.head_rows,
                  .logits = logits.data(),
                  .targets = targets.data(),
                  .gradient_scale = gradient_scale,
                  .loss = loss.data()},
                 nullptr);
  };
  table->Add(m, "cross_entropy loss", size, 0, [&] { run(nullptr); });
  table->Add(m, "cross_entropy gradient", 2 * size, 0, [&] { run(&scale); });
}

void BenchRows(const Model& m, Table* table) {
  const EmbeddingSpec spec{.vocab = m.vocab, .hidden = m.hidden};
  auto weight = Values(m.vocab * m.hidden), out = Values(m.tokens * m.hidden);
  std::vector<int32_t> ids, index;
  for (int64_t t = 0; t < m.tokens; ++t) {
    ids.push_back(static_cast<int32_t>(t * 7919 % m.vocab));
    if (t % 2 == 0) index.push_back(static_cast<int32_t>(t));
  }
  const double size = static_cast<double>(m.tokens * m.hidden) * 4;
  table->Add(m, "embedding forward", 2 * size, 0, [&] {
    EmbeddingForward({.spec = spec,
                      .tokens = m.tokens,
                      .ids = ids.data(),
                      .weight = weight.data(),
                      .out = out.data()},
                     nullptr);
  });
  table->Add(m, "embedding backward", 3 * size, 0, [&] {
    EmbeddingBackward({.spec = spec,
                       .tokens = m.tokens,
                       .ids = ids.data(),
                       .dout = out.data(),
                       .dweight = weight.data()},
                      nullptr);
  });
  auto rows = Values(m.tokens / 2 * m.hidden);
  table->Add(m, "gather half of the rows", size, 0, [&] {
    GatherRows({.spec = {.columns = m.hidden},
                .rows = m.tokens / 2,
                .index = index.data(),
                .in = out.data(),
                .out = rows.data()},
               nullptr);
  });
  auto dbias = Values(m.hidden);
  std::vector<char> scratch(
      static_cast<size_t>(BiasBackwardWorkspaceBytes({}, m.tokens, m.hidden)));
  table->Add(m, "bias gradient", size, 0, [&] {
    BiasBackward({.rows = m.tokens,
                  .columns = m.hidden,
                  .dy = out.data(),
                  .ldy = m.hidden,
                  .dbias = dbias.data(),
                  .workspace = {scratch.data(), static_cast<int64_t>(scratch.size())}},
                 nullptr);
  });
}

// States of fewer bits; p and g are float32.
void BenchStates(const Model& m, Table* table) {
  const int64_t n = 4 << 20, blocks = StateBlocks(n);
  auto p = Values(n), g = p;
  OptimizerScalars scalars{.lr = 1e-6};
  const uint32_t step = 1;
  std::vector<uint16_t> m_bits(static_cast<size_t>(n)), v_bits(m_bits);
  const AdamWTensor halves{
      .p = p.data(), .g = g.data(), .m = m_bits.data(), .v = v_bits.data(), .n = n};
  table->Add(m, "adamw_bf16 4M", 20.0 * static_cast<double>(n), 0, [&] {
    AdamW({.tensors = &halves,
           .count = 1,
           .chunks = TensorChunks(n),
           .scalars = &scalars,
           .state_dtype = DType::kBFloat16,
           .draws = {.step = &step}},
          nullptr);
  });
  std::vector<uint8_t> m_codes(static_cast<size_t>(n)), v_codes(m_codes);
  std::vector<float> m_absmax(static_cast<size_t>(blocks)), v_absmax(m_absmax);
  const AdamW8bitTensor blockwise{.tensor = {.p = p.data(), .g = g.data(), .n = n},
                                  .m_codes = m_codes.data(),
                                  .v_codes = v_codes.data(),
                                  .m_absmax = m_absmax.data(),
                                  .v_absmax = v_absmax.data()};
  table->Add(m, "adamw_8bit 4M", 16.0625 * static_cast<double>(n), 0, [&] {
    AdamW8bit({.tensors = &blockwise, .count = 1, .chunks = TensorChunks(n), .scalars = &scalars},
              nullptr);
  });
}

void BenchOptimizer(const Model& m, Table* table) {
  const int64_t n = 4 << 20;
  auto p = Values(n), g = p, moment = p;
  std::vector<float> v(static_cast<size_t>(n), 1.0f);
  const AdamWTensor tensor{.p = p.data(), .g = g.data(), .m = moment.data(), .v = v.data(), .n = n};
  OptimizerScalars scalars{.lr = 1e-6};
  table->Add(m, "adamw 4M", 28.0 * static_cast<double>(n), 0, [&] {
    AdamW({.tensors = &tensor, .count = 1, .chunks = TensorChunks(n), .scalars = &scalars},
          nullptr);
  });
  const NormTensor norm{.data = g.data(), .elements = n};
  std::vector<char> scratch(static_cast<size_t>(GlobalNormWorkspaceBytes(TensorChunks(n))));
  NormSums sums;
  table->Add(m, "global_norm 4M", 4.0 * static_cast<double>(n), 0, [&] {
    GlobalNorm({.tensors = &norm,
                .count = 1,
                .chunks = TensorChunks(n),
                .sums = &sums,
                .workspace = {scratch.data(), static_cast<int64_t>(scratch.size())}},
               nullptr);
  });
}

int Main(int argc, char** argv) {
  int threads = 1;
  std::string json_path = "bench/results/cpu_kernels.json";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads") threads = std::stoi(argv[i + 1]);
    if (flag == "--json") json_path = argv[i + 1];
  }
  SetNumThreads(threads);
  const double copy = CopyBandwidth(), gemm = GemmSpeed();
  std::printf("%s\ncopy %.1f GB/s, sgemm %.1f GFLOP/s\n", DeviceFingerprint().c_str(), copy, gemm);
  Table table(copy, gemm);
  for (const Model& model : kModels) {
    for (auto* bench : {BenchGemm, BenchNorms, BenchRotations, BenchAttention, BenchSwiglu,
                        BenchLora, BenchHead, BenchRows}) {
      bench(model, &table);
    }
  }
  BenchOptimizer(kModels[0], &table);
  BenchStates(kModels[0], &table);
  coxswain::bench::WriteResults(json_path, table.json());
  return 0;
}

}  // namespace
}  // namespace coxswain::kernels

int main(int argc, char** argv) {
  coxswain::kernels::cpu::UseWidestBlasCore(argv);
  return coxswain::kernels::Main(argc, argv);
}
