// Commands to the engine and its answers, as plain data.
#ifndef COXSWAIN_WORKER_ENGINE_COMMANDS_COMMANDS_H_
#define COXSWAIN_WORKER_ENGINE_COMMANDS_COMMANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/files/block_digests.h"
#include "kernels/loss/document_loss.h"

namespace coxswain::engine {

// The bins of this rank hold whole documents, in order; T tokens in all.
struct BinBatch {
  std::vector<int64_t> bin_ids;            // global bin index
  std::vector<int32_t> documents_per_bin;  // >= 1 each
  std::vector<int32_t> document_lengths;   // >= 1 each, sum = T
  std::vector<int32_t> token_ids;          // [T], in [0, vocab)
  std::vector<uint8_t> targets;            // [T], 1: the token after t is a target of t
  // The largest number of micro-steps of any rank; 0: as many as these bins take. Under ZeRO 2 and
  // 3, which gather or reduce in every micro-step, all ranks join all micro-steps.
  int64_t micro_steps = 0;
  // Of each document, where the plan's loss has the reference "kept": the sum of the
  // log-probabilities of its targets under the reference, nats.
  std::vector<double> references = {};
  // DocumentLoss::values_per_document of each document.
  std::vector<float> values = {};
  // Of each target in order, where the plan has a policy loss: its advantage and, in nats, its
  // log-probability when it was drawn; where that has a KL term, its log-probability under the
  // reference.
  std::vector<float> advantages = {}, old_log_probs = {}, reference_log_probs = {};
};

// Bins whose gradients are added to those of a step. The batches of one step have the same
// denominator; how the global batch is cut into them changes rounding only.
struct GradientBatch {
  int64_t step = 0;  // 0-based, of the update to come
  BinBatch bins;
  // Of the whole global batch: targets, or pairs or records of a loss of documents; of a policy
  // loss as its normaliser says.
  int64_t loss_denominator = 1;
  kernels::DocumentScalars documents = {};  // of a loss of documents, of the whole global batch
  // No batch of this step follows: ranks reduce the gradients while they come. The update reduces
  // them else, while nothing is computed.
  bool last = true;
};

// The update by the gradients of all batches since the last one.
struct UpdateStep {
  int64_t step = 0;            // 0-based, that of the batches
  double learning_rate = 0.0;  // base rate; groups multiply by lr_scale
};

// A whole step: its only batch and its update.
struct TrainStep : GradientBatch {
  double learning_rate = 0.0;
  UpdateStep update() const { return {step, learning_rate}; }
};

// Phases add up to the step. comm is the time that compute waited for other ranks.
struct PhaseSeconds {
  double forward = 0, backward = 0, comm = 0, optimizer = 0, step = 0;
};

struct MemoryBytes {
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  uint64_t host = 0;  // host memory of a GPU worker, besides that on the device
  uint64_t peak = 0;  // device memory in use now; on the CPU the process's largest resident set
};

// How the router of a layer used its experts in a step, over all micro-steps and ranks.
struct LayerExpertUse {
  int64_t layer = 0;
  // Pairs of token and expert of the fullest expert over the mean of the experts; 0: no token.
  double load_ratio = 0;
  int64_t unused_experts = 0;    // without a token
  double router_entropy = 0;     // nats, mean over tokens whose entropy is finite; 0: none is
  int64_t nonfinite_tokens = 0;  // the other tokens
};

// The same of a model. All numbers are finite.
struct ExpertUse {
  std::vector<LayerExpertUse> layers;  // those with experts; empty: none of the model has some
  double load_ratio = 0;               // mean over layers
  double worst_load_ratio = 0;         // of worst_layer, the first that has the highest
  int64_t worst_layer = 0;
  int64_t unused_experts = 0;    // summed over layers
  double router_entropy = 0;     // nats, mean over tokens and layers
  int64_t nonfinite_tokens = 0;  // summed over layers
  // The losses of routers without their factors (kernels/experts/router_loss.h), as they enter the
  // loss of the step: of bins the mean by targets, of micro-batches the sum over micro-steps of the
  // mean over ranks. None: its factor is 0, or it is not finite.
  std::optional<double> balance_loss, z_loss;
};

// What a loss of documents reports, summed over the pairs or records of this rank's bins. Rewards
// and log-probabilities are nats (kernels/loss/document_loss.h).
struct PreferenceStats {
  enum class Of { kLogProbs, kPairScores, kLabels, kNumbers };
  Of of = Of::kLogProbs;
  double rewards_chosen = 0, rewards_rejected = 0;
  double accuracies = 0;
  double logps_chosen = 0, logps_rejected = 0;
  int64_t chosen = 0, rejected = 0;  // documents
  bool pairs = false;                // accuracies are of pairs; else there are none

  // False where the loss is not of documents, or there is none.
  bool any() const { return chosen + rejected > 0; }
};

// What a policy loss reports, summed over the targets of this rank's bins
// (kernels/loss/policy_loss.h).
struct PolicyStats {
  double clipped_low = 0, clipped_high = 0;
  double clippable = 0;  // targets, or documents where the ratio is of sequences
  double kl = 0, ratio = 0;
  int64_t rows = 0;  // targets
  // Of a document's share of clipped targets.
  double low_min = 0, high_max = 0;

  // False where there is no such loss, or no target.
  bool any() const { return rows > 0; }
};

// Of a step, or of an update alone: then targets, tokens, preference and policy were told with the
// batches.
struct StepStats {
  double loss_sum = 0;         // of this rank's bins, before the update
  double global_loss_sum = 0;  // over all ranks
  int64_t loss_denominator = 1;
  int64_t targets = 0;  // of this rank's bins
  int64_t tokens = 0;
  double grad_norm = 0;   // global, before clipping
  int64_t nonfinite = 0;  // non-finite gradient elements, all ranks
  bool applied = false;
  PhaseSeconds seconds;
  ExpertUse experts;
  PreferenceStats preference;
  PolicyStats policy;
};

// Of this rank's bins.
struct BatchStats {
  double loss_sum = 0;
  int64_t targets = 0;
  int64_t tokens = 0;
  PhaseSeconds seconds;
  PreferenceStats preference;
  PolicyStats policy;
};

struct EvalStats : BatchStats {
  int64_t correct_targets = 0;  // targets that are the first maximum of their row of logits
};

// Weights that were written, to be read in place of the trained ones. One of the folders is given;
// or a checkpoint and a model: the checkpoint, each value rounded to the type that its tensor has
// in the files of the model.
struct WrittenWeights {
  // A model: its tensors become the base, and the plan's adapters are new ones, which change
  // nothing.
  std::string model_dir = {};
  std::string adapter_dir = {};     // of the base that is loaded
  std::string checkpoint_dir = {};  // the plan's base, and over it this one of the plan's recipe
  double shake = 0;                 // of each value read (Change); 0: none
};

struct LogProbStats {
  std::vector<double> sums;  // nats, of each document of this rank's bins: over its targets
  // Of each of these targets in order, where the plan has a policy loss.
  std::vector<float> of_targets;
  PhaseSeconds seconds;
};

// How the next token is chosen. Temperature 0 takes the first maximum of the logits. Otherwise a
// token is drawn from their softmax at that temperature, limited to the top_k likeliest tokens (0:
// all), and of these to the likeliest that reach top_p together. Source: transformers
// generation/logits_process.py.
struct Sampling {
  double temperature = 0;  // >= 0
  int64_t top_k = 0;       // >= 0
  double top_p = 1;        // in (0, 1]
  uint64_t seed = 0;       // with (text, position) it fixes every draw
};

// A piece of an answer. Every rank of a gang gets the same chunk.
struct GenerateChunk {
  // Token ids of the prompts, at least one token each. Empty: continue the texts of the previous
  // chunk.
  std::vector<std::vector<int32_t>> prompts = {};
  int64_t tokens = 0;              // at most so many more tokens of each text, >= 1
  std::vector<int32_t> ends = {};  // token ids that end a text; not part of the text
  Sampling sampling = {};
};

struct GeneratedText {
  std::vector<int32_t> ids;  // of this chunk
  bool ended = false;        // no more tokens will come, because of one of `ends` or
  bool cut = false;          // because the plan's generation.length was reached
};

struct GenerateStats {
  std::vector<GeneratedText> texts;  // the same on every rank
  PhaseSeconds seconds;
};

struct ShardFile {
  std::string name;
  BlockDigests blocks;
};

// Status payload: the device is lost to this process, which must end.
inline constexpr char kDeviceLost[] = "coxswain.engine/device-lost";

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_COMMANDS_COMMANDS_H_
