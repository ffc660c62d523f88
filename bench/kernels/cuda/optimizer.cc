// AdamW with states of every storage and the global norm over the parameters of Qwen2.5-0.5B:
// 494,032,768 elements in 290 tensors, from whole embeddings to biases of 128.
#include "bench/kernels/cuda/harness.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/global_norm.h"

namespace coxswain::kernels::bench {
namespace {

std::vector<int64_t> TensorSizes(const Shape& m) {
  std::vector<int64_t> sizes = {m.vocab * m.hidden, m.hidden};
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    for (const int64_t rows : {m.query(), m.key(), m.key()}) {
      sizes.push_back(rows * m.hidden);
      sizes.push_back(rows);
    }
    sizes.push_back(m.hidden * m.query());
    for (int norm = 0; norm < 2; ++norm) sizes.push_back(m.hidden);
    for (int matrix = 0; matrix < 3; ++matrix) sizes.push_back(m.intermediate * m.hidden);
  }
  return sizes;
}

enum class Moments { kFloat32, kBfloat16, kBlocks };

struct State {
  const char* name;
  DType p, g;
  bool master;
  Moments moments = Moments::kFloat32;
  // Weights, gradient, master, both moments: read and, but for the gradient, written.
  double BytesPerElement() const {
    const auto p_bytes = static_cast<double>(DTypeBytes(p));
    const double of_moments = moments == Moments::kFloat32    ? 16
                              : moments == Moments::kBfloat16 ? 8
                                                              : 4 * (1 + 4.0 / kStateBlock);
    return (master ? p_bytes + 8 : 2 * p_bytes) + static_cast<double>(DTypeBytes(g)) + of_moments;
  }
};

constexpr State kStates[] = {
    {"adamw fp32 master, fp32 gradient", kBF16, kF32, true},
    {"adamw fp32 master, bf16 gradient", kBF16, kBF16, true},
    {"adamw stochastic bf16, bf16 gradient", kBF16, kBF16, false},
    {"adamw fp32 weights", kF32, kF32, false},
    {"adamw_bf16 fp32 master, fp32 gradient", kBF16, kF32, true, Moments::kBfloat16},
    {"adamw_bf16 fp32 master, bf16 gradient", kBF16, kBF16, true, Moments::kBfloat16},
    {"adamw_bf16 stochastic bf16, bf16 gradient", kBF16, kBF16, false, Moments::kBfloat16},
    {"adamw_8bit fp32 master, fp32 gradient", kBF16, kF32, true, Moments::kBlocks},
    {"adamw_8bit fp32 master, bf16 gradient", kBF16, kBF16, true, Moments::kBlocks},
    {"adamw_8bit stochastic bf16, bf16 gradient", kBF16, kBF16, false, Moments::kBlocks},
    {"adamw_8bit fp32 weights", kF32, kF32, false, Moments::kBlocks},
};

// Tensors begin at multiples of a block, as a plan lays them out.
int64_t Padded(int64_t n) { return StateBlocks(n) * kStateBlock; }

// The records of the tensors, without states.
std::vector<AdamWTensor> Records(const State& state, const std::vector<int64_t>& sizes,
                                 Memory* memory) {
  int64_t elements = 0;
  for (const int64_t n : sizes) elements += Padded(n);
  auto* p = static_cast<char*>(memory->Values(state.p, elements));
  auto* g = static_cast<char*>(memory->Values(state.g, elements));
  float* master = state.master ? memory->Floats(elements) : nullptr;
  std::vector<AdamWTensor> tensors;
  int64_t at = 0, chunks = 0;
  for (const int64_t n : sizes) {
    tensors.push_back({.p = p + at * DTypeBytes(state.p),
                       .master = state.master ? master + at : nullptr,
                       .g = g + at * DTypeBytes(state.g),
                       .n = n,
                       .first_chunk = chunks,
                       .weight_decay = 0.01,
                       .p_dtype = state.p,
                       .g_dtype = state.g,
                       .index = static_cast<uint32_t>(tensors.size())});
    at += Padded(n);
    chunks += TensorChunks(n);
  }
  return tensors;
}

int64_t Chunks(const std::vector<int64_t>& sizes) {
  int64_t chunks = 0;
  for (const int64_t n : sizes) chunks += TensorChunks(n);
  return chunks;
}

UpdateDraws Draws(Memory* memory) {
  return {.key = {1, 2}, .state_key = {4, 5}, .step = memory->Upload<uint32_t>({3})};
}

Launch MakeAdamW(const State& state, const std::vector<int64_t>& sizes, Memory* memory) {
  const DType dtype = state.moments == Moments::kBfloat16 ? kBF16 : kF32;
  std::vector<AdamWTensor> tensors = Records(state, sizes, memory);
  for (AdamWTensor& t : tensors) {
    t.m = memory->Zeros(DTypeBytes(dtype) * Padded(t.n));
    t.v = memory->Zeros(DTypeBytes(dtype) * Padded(t.n));
  }
  const AdamWArgs args{.tensors = memory->Upload(tensors),
                       .count = static_cast<int64_t>(tensors.size()),
                       .chunks = Chunks(sizes),
                       .scalars = memory->Upload<OptimizerScalars>({{.lr = 1e-5}}),
                       .state_dtype = dtype,
                       .draws = Draws(memory)};
  return [=](Stream* s) { AdamW(args, s); };
}

// Small tensors in blocks too: they are few.
Launch MakeAdamW8bit(const State& state, const std::vector<int64_t>& sizes, Memory* memory) {
  std::vector<AdamW8bitTensor> tensors;
  for (const AdamWTensor& t : Records(state, sizes, memory)) {
    const auto codes = [&] { return static_cast<uint8_t*>(memory->Zeros(Padded(t.n))); };
    const auto absmax = [&] { return static_cast<float*>(memory->Zeros(4 * StateBlocks(t.n))); };
    tensors.push_back({.tensor = t,
                       .m_codes = codes(),
                       .v_codes = codes(),
                       .m_absmax = absmax(),
                       .v_absmax = absmax()});
  }
  const AdamW8bitArgs args{.tensors = memory->Upload(tensors),
                           .count = static_cast<int64_t>(tensors.size()),
                           .chunks = Chunks(sizes),
                           .scalars = memory->Upload<OptimizerScalars>({{.lr = 1e-5}}),
                           .draws = Draws(memory)};
  return [=](Stream* s) { AdamW8bit(args, s); };
}

void BenchAdamW(Bench* bench, const State& state, const std::vector<int64_t>& sizes) {
  int64_t elements = 0;
  for (const int64_t n : sizes) elements += n;
  bench->Time({.name = state.name,
               .extents = std::to_string(elements),
               .bytes = state.BytesPerElement() * static_cast<double>(elements),
               .make = [&](Memory* memory) -> Launch {
                 return state.moments == Moments::kBlocks ? MakeAdamW8bit(state, sizes, memory)
                                                          : MakeAdamW(state, sizes, memory);
               }});
}

void BenchGlobalNorm(Bench* bench, DType dtype, const std::vector<int64_t>& sizes) {
  int64_t elements = 0;
  for (const int64_t n : sizes) elements += n;
  bench->Time({.name = dtype == kF32 ? "global_norm fp32" : "global_norm bf16",
               .extents = std::to_string(elements),
               .bytes = static_cast<double>(DTypeBytes(dtype)) * static_cast<double>(elements),
               .make = [&](Memory* memory) -> Launch {
                 auto* g = static_cast<char*>(memory->Values(dtype, elements));
                 std::vector<NormTensor> tensors;
                 int64_t at = 0, chunks = 0;
                 for (const int64_t n : sizes) {
                   tensors.push_back({.data = g + at * DTypeBytes(dtype),
                                      .elements = n,
                                      .first_chunk = chunks,
                                      .dtype = dtype});
                   at += n;
                   chunks += TensorChunks(n);
                 }
                 const GlobalNormArgs args{
                     .tensors = memory->Upload(tensors),
                     .count = static_cast<int64_t>(tensors.size()),
                     .chunks = chunks,
                     .sums = memory->Upload<NormSums>({{}}),
                     .workspace = memory->Scratch(GlobalNormWorkspaceBytes(chunks))};
                 const DecideUpdateArgs decide{.sums = args.sums,
                                               .max_norm = 1.0,
                                               .scalars = memory->Upload<OptimizerScalars>({{}}),
                                               .norm = static_cast<double*>(memory->Zeros(8))};
                 return [=](Stream* s) {
                   GlobalNorm(args, s);
                   DecideUpdate(decide, s);
                 };
               },
               .note = "with decide_update"});
}

}  // namespace

void BenchOptimizer(Bench* bench) {
  const std::vector<int64_t> sizes = TensorSizes(kShapes[0]);
  for (const State& state : kStates) BenchAdamW(bench, state, sizes);
  for (const DType dtype : {kF32, kBF16}) BenchGlobalNorm(bench, dtype, sizes);
}

}  // namespace coxswain::kernels::bench
