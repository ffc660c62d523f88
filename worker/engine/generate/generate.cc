#include "worker/engine/generate/generate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/element_type.h"
#include "common/plan/extents.h"
#include "common/status_macros.h"
#include "kernels/loss/cross_entropy.h"
#include "worker/engine/generate/sample_token.h"
#include "worker/engine/heads/lm_head.h"
#include "worker/engine/ops/micro_step.h"
#include "worker/engine/ops/op_specs.h"
#include "worker/engine/step/run_sweep.h"

namespace coxswain::engine {
namespace {

absl::Status CheckSampling(const Sampling& sampling) {
  if (sampling.temperature >= 0 && sampling.top_k >= 0 && sampling.top_p > 0 &&
      sampling.top_p <= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("generate: temperature ", sampling.temperature,
                                                 ", top_k ", sampling.top_k, ", top_p ",
                                                 sampling.top_p, "; wanted >= 0, >= 0, in (0, 1]"));
}

absl::Status CheckPrompts(const plan::Plan& plan, const GenerateChunk& chunk) {
  const plan::Generation& room = plan.generation;
  if (static_cast<int64_t>(chunk.prompts.size()) > room.sequences) {
    return absl::InvalidArgumentError(absl::StrCat(
        "generate: ", chunk.prompts.size(), " texts, the plan has room for ", room.sequences));
  }
  for (size_t i = 0; i < chunk.prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(chunk.prompts[i].size());
    if (length >= 1 && length < room.length) continue;
    return absl::InvalidArgumentError(absl::StrCat("generate: text ", i, " has ", length,
                                                   " tokens, the plan has room for 1 to ",
                                                   room.length - 1, " and an answer"));
  }
  return CheckSampling(chunk.sampling);
}

absl::Status CheckChunk(const State& state, const GenerateChunk& chunk) {
  RETURN_IF_ERROR(CheckGroup(state, "generate"));
  if (state.generation == nullptr) {
    return absl::FailedPreconditionError("generate: the plan sets aside no memory for it");
  }
  if (chunk.tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("generate: ", chunk.tokens, " tokens; wanted at least 1"));
  }
  if (chunk.prompts.empty() && state.generation->texts.empty()) {
    return absl::FailedPreconditionError("generate: no text to be written on; prompts come first");
  }
  return CheckPrompts(state.plan, chunk);
}

// The texts [first, first + count) as bins of one document each, without a target.
BinBatch Bins(const GenerateChunk& chunk, size_t first, size_t count) {
  BinBatch bins;
  for (size_t i = first; i < first + count; ++i) {
    const std::vector<int32_t>& prompt = chunk.prompts[i];
    bins.bin_ids.push_back(static_cast<int64_t>(i));
    bins.documents_per_bin.push_back(1);
    bins.document_lengths.push_back(static_cast<int32_t>(prompt.size()));
    bins.token_ids.insert(bins.token_ids.end(), prompt.begin(), prompt.end());
  }
  bins.targets.assign(bins.token_ids.size(), 0);
  return bins;
}

int64_t LogitsStride(const State& state) {
  return plan::LogitsStride(state.plan.model.vocab_size,
                            kernels::DTypeBytes(state.model.compute_dtype));
}

void ChooseNext(const State& state, const Sweep& sweep) {
  ForwardToFinalNorm(sweep);
  HeadLogits(sweep);
  kernels::ArgmaxArgs argmax;
  argmax.spec = {.dtype = state.model.compute_dtype, .columns = state.plan.model.vocab_size};
  argmax.rows = sweep.batch.target_rows;
  argmax.values = sweep.buffers.logits;
  argmax.ld = LogitsStride(state);
  argmax.columns = static_cast<int32_t*>(sweep.buffers.generated_ids);
  kernels::Argmax(argmax, sweep.stream);
}

// Row `row` of the logits on the host, as they enter the softmax.
std::vector<float> HostLogits(const State& state, int64_t row) {
  const int64_t vocab = state.plan.model.vocab_size;
  std::vector<float> logits(static_cast<size_t>(vocab));
  const char* from = state.generation->logits.data() +
                     row * LogitsStride(state) * kernels::DTypeBytes(state.model.compute_dtype);
  for (int64_t i = 0; i < vocab; ++i) {
    logits[static_cast<size_t>(i)] = state.model.compute_dtype == kernels::DType::kBFloat16
                                         ? Bf16ToFloat(reinterpret_cast<const uint16_t*>(from)[i])
                                         : reinterpret_cast<const float*>(from)[i];
  }
  SoftcapLogits(state.plan.model.logit_softcap, &logits);
  return logits;
}

// Chosen tokens as rank 0 has them. Ids are exact in a double.
absl::Status AgreeOnIds(State& state, int64_t count) {
  if (state.plan.world_size() == 1 || state.warming_up) return absl::OkStatus();
  std::vector<double> ids(static_cast<size_t>(count), 0.0);
  PinnedArray<int32_t>& own = state.generation->ids;
  if (state.rank == 0) std::copy_n(own.data(), count, ids.begin());
  const auto bytes = count * static_cast<int64_t>(sizeof(double));
  auto* device = static_cast<double*>(state.buffers.generated_ids);
  kernels::CopyMemory(device, ids.data(), bytes, state.stream);
  state.exchange.SumDoubles(device, count);
  kernels::CopyMemory(ids.data(), device, bytes, state.stream);
  kernels::Synchronize(state.stream);
  for (int64_t i = 0; i < count; ++i) {
    own[i] = static_cast<int32_t>(ids[static_cast<size_t>(i)]);
  }
  return state.exchange.status();
}

// One sweep over the staged rows: the next token of the texts [first, first + batch.target_rows)
// into GenerationState::ids.
absl::Status RunChoice(State& state, const Sweep& sweep, size_t first, PhaseSeconds* seconds) {
  GenerationState& generation = *state.generation;
  const char* name = sweep.cache == CacheUse::kFill ? "prefill" : "decode";
  const int64_t count = sweep.batch.target_rows;
  const SweepKind kind{.name = name,
                       .differs_first = state.model.dora,
                       .seconds = seconds,
                       .phase = &seconds->forward};
  RunSweep(state, sweep, kind, ForwardVisits(state.model), ChooseNext);
  kernels::CopyMemory(generation.ids.data(), state.buffers.generated_ids,
                      count * static_cast<int64_t>(sizeof(int32_t)), state.stream);
  const bool drawn = generation.sampling.temperature > 0;
  if (drawn) {
    const int64_t bytes =
        count * LogitsStride(state) * kernels::DTypeBytes(state.model.compute_dtype);
    generation.logits.resize(static_cast<size_t>(bytes));
    kernels::CopyMemory(generation.logits.data(), state.buffers.logits, bytes, state.stream);
  }
  state.timeline.Mark(&seconds->forward, state.stream);
  RETURN_IF_ERROR(FinishPhases(state, seconds));
  for (int64_t i = 0; drawn && i < count; ++i) {
    const auto text = first + static_cast<size_t>(i);
    if (generation.ids[i] < 0 || generation.texts[text].ended) continue;
    generation.ids[i] = SampleToken(
        HostLogits(state, i), generation.sampling,
        {static_cast<uint32_t>(text), static_cast<uint32_t>(generation.texts[text].length)});
  }
  return AgreeOnIds(state, count);
}

// Puts the chosen tokens behind their texts.
absl::Status TakeChosen(State& state, size_t first, int64_t count, GenerateStats* stats) {
  GenerationState& generation = *state.generation;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = first + static_cast<size_t>(i);
    OpenText& text = generation.texts[at];
    if (text.ended) continue;
    const int32_t id = generation.ids[i];
    if (id < 0 && !state.warming_up) {
      return absl::FailedPreconditionError(
          absl::StrCat("generate: the logits of text ", at, " behind its ", text.length,
                       " tokens are not all numbers: look at the weights that were loaded"));
    }
    text.last = std::max(id, 0);
    text.ended = std::count(generation.ends.begin(), generation.ends.end(), id) > 0;
    if (text.ended) continue;
    stats->texts[at].ids.push_back(id);
    text.ended = text.cut = ++text.length == state.plan.generation.length;
  }
  return absl::OkStatus();
}

absl::Status AnswerPrompts(State& state, const GenerateChunk& chunk, GenerateStats* stats) {
  GenerationState& generation = *state.generation;
  const auto most = static_cast<size_t>(state.plan.micro_batch_bins);
  const int64_t stride = state.plan.device == DeviceKind::kCuda ? state.plan.sequence_len : 0;
  for (size_t first = 0; first < chunk.prompts.size(); first += most) {
    const size_t count = std::min(most, chunk.prompts.size() - first);
    const BinBatch bins = Bins(chunk, first, count);
    RETURN_IF_ERROR(CheckBins(state.plan, bins));
    state.timeline.Begin(state.stream);
    BinCursor cursor;
    MicroBatch batch = state.stager.StageNext(bins, state.buffers, state.stream, &cursor);
    generation.StagePrompts(chunk, first, count, stride, batch, state.buffers, state.stream);
    batch.target_rows = static_cast<int64_t>(count);
    Sweep sweep{state.model, state.buffers, state.ops, batch, state.stream, first == 0};
    sweep.cache = CacheUse::kFill;
    RETURN_IF_ERROR(RunChoice(state, sweep, first, &stats->seconds));
    RETURN_IF_ERROR(TakeChosen(state, first, batch.target_rows, stats));
  }
  return absl::OkStatus();
}

absl::Status WriteOn(State& state, GenerateStats* stats) {
  state.timeline.Begin(state.stream);
  const MicroBatch batch = state.generation->StageNext(state.buffers, state.stream);
  Sweep sweep{state.model, state.buffers, state.ops, batch, state.stream};
  sweep.cache = CacheUse::kRead;
  RETURN_IF_ERROR(RunChoice(state, sweep, 0, &stats->seconds));
  return TakeChosen(state, 0, batch.target_rows, stats);
}

void Begin(GenerationState& generation, const GenerateChunk& chunk) {
  generation.sampling = chunk.sampling;
  generation.ends = chunk.ends;
  generation.texts.clear();
  for (const std::vector<int32_t>& prompt : chunk.prompts) {
    generation.texts.push_back({static_cast<int64_t>(prompt.size()), prompt.back(), false, false});
  }
}

}  // namespace

absl::StatusOr<GenerateStats> RunGenerate(State& state, const GenerateChunk& chunk) {
  RETURN_IF_ERROR(CheckChunk(state, chunk));
  GenerationState& generation = *state.generation;
  int64_t left = chunk.tokens;
  GenerateStats stats;
  state.waits.clear();
  if (!chunk.prompts.empty()) Begin(generation, chunk);
  stats.texts.resize(generation.texts.size());
  if (!chunk.prompts.empty()) {
    RETURN_IF_ERROR(AnswerPrompts(state, chunk, &stats));
    --left;
  }
  const auto open = [](const OpenText& text) { return !text.ended; };
  for (; left > 0 && std::any_of(generation.texts.begin(), generation.texts.end(), open); --left) {
    RETURN_IF_ERROR(WriteOn(state, &stats));
  }
  for (size_t i = 0; i < stats.texts.size(); ++i) {
    stats.texts[i].ended = generation.texts[i].ended;
    stats.texts[i].cut = generation.texts[i].cut;
  }
  return stats;
}

}  // namespace coxswain::engine
