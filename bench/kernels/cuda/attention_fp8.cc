// Attention forward in FP8, ours and by the plans of cuDNN, beside ours in bfloat16 on the same
// values: documents of one length, 32 heads over 8 of 128 elements, a scale each for q, k and v, P
// times 256. "error" is the Frobenius norm of the difference over that of the output in bfloat16.
// Ours quantises q, k and v itself; for cuDNN's that is a row of its own.
// Source: NVIDIA, cuDNN frontend 1.12, docs/operations/Attention.md, SDPA FP8 forward.
#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "bench/kernels/cuda/harness.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda/stream.h"
#include "kernels/quantize/fp8.h"

namespace coxswain::kernels::bench {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kTokens = 32768, kHeads = 32, kKvHeads = 8, kWidth = 128;
constexpr int64_t kQuery = kHeads * kWidth, kKey = kKvHeads * kWidth, kPacked = kQuery + 2 * kKey;
constexpr float kProbabilityScale = 256.0f;  // a power of two: P of 1 stays below 448
constexpr float kOutputScale = 64.0f;        // of an output in FP8; values are means of normal ones

enum Uid : int64_t { kQ = 1, kK, kV, kScaleQ, kScaleK, kScaleV, kUndoP, kScaleP, kScaleOut };
enum OutUid : int64_t { kOut = 20, kLse, kAmaxP, kAmaxOut };

fe::graph::Tensor_attributes Rows(int64_t uid, int64_t length, int64_t heads, fe::DataType_t type) {
  const int64_t row = heads * kWidth;
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_dim({kTokens / length, heads, length, kWidth})
      .set_stride({length * row, kWidth, row, 1})
      .set_data_type(type);
}
fe::graph::Tensor_attributes Scalar(int64_t uid) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_dim({1, 1, 1, 1})
      .set_stride({1, 1, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}
void SetOutput(const Tensor& tensor, const fe::graph::Tensor_attributes& like) {
  tensor->set_output(true)
      .set_uid(like.get_uid())
      .set_dim(like.get_dim())
      .set_stride(like.get_stride())
      .set_data_type(like.get_data_type());
}

// Null: cuDNN has no such plan, and *why says what it lacks.
std::shared_ptr<fe::graph::Graph> Build(int64_t length, fe::DataType_t output, Stream* stream,
                                        std::string* why) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::FP8_E4M3)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto scalar = [&](int64_t uid) { return graph->tensor(Scalar(uid)); };
  const auto rows = [&](int64_t uid, int64_t heads) {
    return graph->tensor(Rows(uid, length, heads, fe::DataType_t::FP8_E4M3));
  };
  const auto [out, lse, amax_p, amax_out] = graph->sdpa_fp8(
      rows(kQ, kHeads), rows(kK, kKvHeads), rows(kV, kKvHeads), scalar(kScaleQ), scalar(kScaleK),
      scalar(kScaleV), scalar(kUndoP), scalar(kScaleP), scalar(kScaleOut),
      fe::graph::SDPA_fp8_attributes()
          .set_name("attention_fp8")
          .set_is_inference(false)
          .set_causal_mask(true)
          .set_attn_scale(1.0f / std::sqrt(static_cast<float>(kWidth))));
  SetOutput(out, Rows(kOut, length, kHeads, output));
  SetOutput(lse, fe::graph::Tensor_attributes()
                     .set_uid(kLse)
                     .set_dim({kTokens / length, kHeads, length, 1})
                     .set_stride({kHeads * length, length, 1, 1})
                     .set_data_type(fe::DataType_t::FLOAT));
  SetOutput(amax_p, Scalar(kAmaxP));
  SetOutput(amax_out, Scalar(kAmaxOut));
  fe::error_t error = graph->validate();
  if (error.is_good()) error = graph->build_operation_graph(stream->cudnn());
  if (error.is_good()) error = graph->create_execution_plans({fe::HeurMode_t::A});
  if (error.is_good()) error = graph->check_support(stream->cudnn());
  if (error.is_good()) {
    error = graph->build_plans(stream->cudnn(), fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  }
  if (error.is_good()) return graph;
  *why = error.get_message();
  return nullptr;
}

// q, k and v in bfloat16 behind each other in a row, and their codes apart.
struct Inputs {
  char* packed = nullptr;
  std::array<Fp8QuantizeArgs, 3> quantize;
};
Inputs MakeInputs(Memory* memory) {
  Inputs inputs{.packed = static_cast<char*>(memory->BFloat16(kTokens * kPacked)), .quantize = {}};
  int64_t first = 0;
  for (size_t i = 0; i < inputs.quantize.size(); ++i) {
    const int64_t cols = i == 0 ? kQuery : kKey;
    inputs.quantize[i] = {
        .dtype = kBF16,
        .rows = kTokens,
        .cols = cols,
        .x = inputs.packed + 2 * first,
        .ldx = kPacked,
        .straight = {.codes = static_cast<uint8_t*>(memory->Zeros(kTokens * cols)),
                     .scales = static_cast<float*>(memory->Zeros(16))},
        .workspace =
            memory->Scratch(Fp8QuantizeWorkspaceBytes(Fp8Scaling::kTensor, kTokens, cols))};
    first += cols;
  }
  return inputs;
}
void Quantize(const Inputs& inputs, Stream* stream) {
  for (const Fp8QuantizeArgs& args : inputs.quantize) Fp8Quantize(args, stream);
}

struct Forward {
  std::shared_ptr<fe::graph::Graph> graph;
  std::unordered_map<int64_t, void*> tensors;
  void *out = nullptr, *workspace = nullptr;
};
Forward MakeForward(std::shared_ptr<fe::graph::Graph> graph, const Inputs& inputs,
                    int64_t output_bytes, Memory* memory) {
  Forward forward{.graph = std::move(graph), .tensors = {}};
  for (size_t i = 0; i < inputs.quantize.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    forward.tensors[kQ + at] = inputs.quantize[i].straight.codes;
    forward.tensors[kScaleQ + at] = inputs.quantize[i].straight.scales;
  }
  const auto scalar = [&](float value) { return memory->Upload(std::vector<float>{value}); };
  forward.tensors[kUndoP] = scalar(1.0f / kProbabilityScale);
  forward.tensors[kScaleP] = scalar(kProbabilityScale);
  forward.tensors[kScaleOut] = scalar(output_bytes == 1 ? kOutputScale : 1.0f);
  forward.tensors[kOut] = forward.out = memory->Zeros(kTokens * kQuery * output_bytes);
  forward.tensors[kLse] = memory->Floats(kTokens * kHeads);
  forward.tensors[kAmaxP] = scalar(0.0f);
  forward.tensors[kAmaxOut] = scalar(0.0f);
  forward.workspace = memory->Zeros(std::max<int64_t>(forward.graph->get_workspace_size(), 16));
  return forward;
}
void Run(const Forward& forward, Stream* stream) {
  auto tensors = forward.tensors;  // cudnn-frontend adds pointers to its own frame
  fe::error_t error = forward.graph->execute(stream->cudnn(), tensors, forward.workspace);
  if (error.is_bad()) throw DeviceError("attention_fp8: " + error.get_message(), false);
}

AttentionForwardArgs Ours(bool fp8, int64_t length, const Inputs& inputs, Stream* stream,
                          Memory* memory) {
  const AttentionSpec spec{.dtype = kBF16,
                           .num_heads = kHeads,
                           .num_kv_heads = kKvHeads,
                           .head_dim = kWidth,
                           .scale = 1.0f / std::sqrt(static_cast<float>(kWidth)),
                           .deterministic = true,
                           .fp8 = fp8};
  const int64_t documents = kTokens / length;
  const AttentionExtents extents{.tokens = kTokens,
                                 .documents = documents,
                                 .max_length = length,
                                 .dense = true,
                                 .workspace_budget = int64_t{32} << 30};
  PrepareAttention(spec, extents, stream);
  std::vector<int32_t> boundaries;
  for (int64_t d = 0; d <= documents; ++d) boundaries.push_back(static_cast<int32_t>(d * length));
  return {.spec = spec,
          .tokens = kTokens,
          .documents = {.count = documents,
                        .cu_seqlens = memory->Upload(boundaries),
                        .max_length = length,
                        .dense = true},
          .in = PackedInputs(spec, inputs.packed),
          .out = memory->BFloat16(kTokens * kQuery),
          .lse = memory->Floats(kTokens * kHeads),
          .rounded = fp8 ? PackedOutputs(spec, inputs.packed) : HeadOutputs{},
          .workspace = memory->Scratch(AttentionForwardWorkspaceBytes(spec, extents))};
}

float FromBFloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}
float FromE4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 128) != 0 ? -size : size;
}

// Of every eighth row.
double RelativeError(const void* fp8_out, int64_t output_bytes, const void* expected) {
  const auto row = static_cast<size_t>(kQuery);
  std::vector<uint8_t> got(row * static_cast<size_t>(output_bytes));
  std::vector<uint16_t> want(row);
  double difference = 0, norm = 0;
  for (int64_t token = 0; token < kTokens; token += 8) {
    const auto got_bytes = static_cast<int64_t>(got.size());
    CopyMemory(got.data(), static_cast<const char*>(fp8_out) + token * got_bytes, got_bytes,
               nullptr);
    CopyMemory(want.data(), static_cast<const char*>(expected) + token * 2 * kQuery, 2 * kQuery,
               nullptr);
    for (size_t i = 0; i < row; ++i) {
      uint16_t half = 0;
      if (output_bytes == 2) std::memcpy(&half, &got[2 * i], 2);
      const double a = output_bytes == 2 ? FromBFloat16(half) : FromE4m3(got[i]) / kOutputScale;
      const double b = FromBFloat16(want[i]);
      difference += (a - b) * (a - b);
      norm += b * b;
    }
  }
  return std::sqrt(difference / norm);
}

void BenchOurs(Bench* bench, int64_t length, const std::string& extents, double flops) {
  bench->Time({.name = "attention_fp8: ours, quantising included",
               .extents = extents,
               .flops = flops,
               .make = [&](Memory* memory) -> Launch {
                 const auto args = Ours(true, length, MakeInputs(memory), bench->stream(), memory);
                 return [=](Stream* s) { AttentionForward(args, s); };
               }});
  Memory memory;
  const Inputs inputs = MakeInputs(&memory);
  const AttentionForwardArgs got = Ours(true, length, inputs, bench->stream(), &memory);
  const AttentionForwardArgs expected = Ours(false, length, inputs, bench->stream(), &memory);
  AttentionForward(expected, bench->stream());
  AttentionForward(got, bench->stream());  // rounds what both read
  Synchronize(bench->stream());
  const double error = RelativeError(got.out, 2, expected.out);
  bench->AddLine("attention_fp8: ours, error", std::to_string(error),
                 {{"extents", extents}, {"relative_error", error}});
}

void BenchLength(Bench* bench, int64_t length) {
  const std::string extents = Extents(kTokens / length, length);
  const double pairs = 0.5 * static_cast<double>(kTokens) * static_cast<double>(length + 1);
  const double flops = 4.0 * kQuery * pairs;
  bench->Time({.name = "attention_fp8: forward in bfloat16",
               .extents = extents,
               .flops = flops,
               .make = [&](Memory* memory) -> Launch {
                 const auto args = Ours(false, length, MakeInputs(memory), bench->stream(), memory);
                 return [=](Stream* s) { AttentionForward(args, s); };
               }});
  BenchOurs(bench, length, extents, flops);
  std::string refused;
  for (const int64_t bytes : {2, 1}) {
    const auto type = bytes == 2 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FP8_E4M3;
    const auto graph = Build(length, type, bench->stream(), &refused);
    const std::string name =
        std::string("attention_fp8: cuDNN, output in ") + (bytes == 2 ? "bfloat16" : "FP8");
    if (graph == nullptr) {
      bench->AddLine(name, refused, {{"extents", extents}, {"error", refused}});
      continue;
    }
    bench->Time(
        {.name = name, .extents = extents, .flops = flops, .make = [&](Memory* memory) -> Launch {
           const Inputs inputs = MakeInputs(memory);
           Quantize(inputs, bench->stream());
           const Forward forward = MakeForward(graph, inputs, bytes, memory);
           return [=](Stream* s) { Run(forward, s); };
         }});
    Memory memory;
    const Inputs inputs = MakeInputs(&memory);
    Quantize(inputs, bench->stream());
    const Forward forward = MakeForward(graph, inputs, bytes, &memory);
    const AttentionForwardArgs expected = Ours(false, length, inputs, bench->stream(), &memory);
    Run(forward, bench->stream());
    AttentionForward(expected, bench->stream());
    Synchronize(bench->stream());
    const double error = RelativeError(forward.out, bytes, expected.out);
    bench->AddLine(name + ", error", std::to_string(error),
                   {{"extents", extents}, {"relative_error", error}});
  }
}

}  // namespace

void BenchAttentionFp8(Bench* bench) {
  if (!bench->Wanted("attention_fp8")) return;
  bench->Time({.name = "attention_fp8: quantise q, k and v",
               .extents = Extents(kTokens, kPacked),
               .bytes = 3.0 * kTokens * kPacked,
               .make = [](Memory* memory) -> Launch {
                 const Inputs inputs = MakeInputs(memory);
                 return [=](Stream* s) { Quantize(inputs, s); };
               }});
  for (const int64_t length : {2048, 4096, 8192, 16384, 32768}) BenchLength(bench, length);
}

}  // namespace coxswain::kernels::bench
