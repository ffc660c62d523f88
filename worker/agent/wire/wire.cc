#include "worker/agent/wire/wire.h"

#include "common/faults/failure_kind.h"
#include "common/outside_text.h"

namespace coxswain::agent {

v1::MemoryBytes ToWire(const engine::MemoryBytes& memory) {
  v1::MemoryBytes wire;
  wire.set_weights(memory.weights);
  wire.set_gradients(memory.gradients);
  wire.set_optimizer(memory.optimizer);
  wire.set_activations(memory.activations);
  wire.set_workspace(memory.workspace);
  wire.set_peak(memory.peak);
  wire.set_host(memory.host);
  return wire;
}

v1::PhaseSeconds ToWire(const engine::PhaseSeconds& seconds) {
  v1::PhaseSeconds wire;
  wire.set_forward(seconds.forward);
  wire.set_backward(seconds.backward);
  wire.set_comm(seconds.comm);
  wire.set_optimizer(seconds.optimizer);
  wire.set_step(seconds.step);
  return wire;
}

v1::CollectiveProgress ToWire(const comm::Progress& progress) {
  v1::CollectiveProgress wire;
  wire.set_started(progress.started);
  wire.set_finished(progress.finished);
  wire.set_operation(CleanText(progress.operation, kMostNameBytes));
  wire.set_in_it_ms(progress.in_it_for.count());
  return wire;
}

v1::GeneratedText ToWire(const engine::GeneratedText& text) {
  v1::GeneratedText message;
  message.mutable_ids()->Add(text.ids.begin(), text.ids.end());
  message.set_ended(text.ended);
  message.set_cut(text.cut);
  return message;
}

engine::GenerateChunk FromWire(const v1::Generate& generate) {
  engine::GenerateChunk chunk;
  for (const v1::TokenIds& prompt : generate.prompts()) {
    chunk.prompts.emplace_back(prompt.ids().begin(), prompt.ids().end());
  }
  chunk.tokens = generate.tokens();
  chunk.ends.assign(generate.ends().begin(), generate.ends().end());
  const v1::Sampling& sampling = generate.sampling();
  chunk.sampling = {.temperature = sampling.temperature(),
                    .top_k = sampling.top_k(),
                    .top_p = chunk.prompts.empty() ? 1 : sampling.top_p(),
                    .seed = sampling.seed()};
  return chunk;
}

engine::WrittenWeights FromWire(const v1::Load& load) {
  return {.model_dir = load.model_dir(),
          .adapter_dir = load.adapter_dir(),
          .checkpoint_dir = load.checkpoint_dir(),
          .shake = load.shake()};
}

v1::Preference ToWire(const engine::PreferenceStats& stats) {
  v1::Preference wire;
  wire.set_of(static_cast<v1::Preference::Of>(stats.of));
  wire.set_rewards_chosen(stats.rewards_chosen);
  wire.set_rewards_rejected(stats.rewards_rejected);
  wire.set_accuracies(stats.accuracies);
  wire.set_logps_chosen(stats.logps_chosen);
  wire.set_logps_rejected(stats.logps_rejected);
  wire.set_chosen(stats.chosen);
  wire.set_rejected(stats.rejected);
  wire.set_pairs(stats.pairs);
  return wire;
}

v1::PolicyReport ToWire(const engine::PolicyStats& stats) {
  v1::PolicyReport wire;
  wire.set_clipped_low(stats.clipped_low);
  wire.set_clipped_high(stats.clipped_high);
  wire.set_clippable(stats.clippable);
  wire.set_kl(stats.kl);
  wire.set_ratio(stats.ratio);
  wire.set_targets(stats.rows);
  wire.set_low_min(stats.low_min);
  wire.set_high_max(stats.high_max);
  return wire;
}

v1::ExpertUse ToWire(const engine::ExpertUse& use) {
  v1::ExpertUse wire;
  wire.set_load_ratio(use.load_ratio);
  wire.set_worst_load_ratio(use.worst_load_ratio);
  wire.set_worst_layer(static_cast<int32_t>(use.worst_layer));
  wire.set_unused_experts(use.unused_experts);
  wire.set_router_entropy(use.router_entropy);
  wire.set_nonfinite_tokens(use.nonfinite_tokens);
  if (use.balance_loss) wire.set_balance_loss(*use.balance_loss);
  if (use.z_loss) wire.set_z_loss(*use.z_loss);
  return wire;
}

v1::LayerExpertUse ToWire(const engine::LayerExpertUse& use) {
  v1::LayerExpertUse wire;
  wire.set_layer(static_cast<int32_t>(use.layer));
  wire.set_load_ratio(use.load_ratio);
  wire.set_unused_experts(use.unused_experts);
  wire.set_router_entropy(use.router_entropy);
  wire.set_nonfinite_tokens(use.nonfinite_tokens);
  return wire;
}

v1::Error ToError(const absl::Status& status, const std::string& phase) {
  v1::Error error;
  error.set_code(absl::StatusCodeToString(status.code()));
  error.set_message(CleanText(std::string(status.message())));
  error.set_kind(FailureKind(status.code(), phase));
  error.set_rank(-1);
  error.set_phase(phase);
  return error;
}

v1::ConnectDone ToConnectDone(const std::vector<plan::LinkSpeed>& links,
                              const std::string& fingerprint) {
  v1::ConnectDone done;
  done.set_fingerprint(fingerprint);
  for (const plan::LinkSpeed& link : links) {
    v1::LinkSpeed* wire = done.add_links();
    wire->set_bytes(link.bytes);
    wire->set_bytes_per_second(link.bytes_per_second);
  }
  return done;
}

}  // namespace coxswain::agent
