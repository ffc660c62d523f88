// Job texts the config tests share.
#ifndef COXSWAIN_TESTS_COMMON_CONFIG_JOB_TEXT_H_
#define COXSWAIN_TESTS_COMMON_CONFIG_JOB_TEXT_H_

#include <string>

namespace coxswain::config {

// Smallest job: seven lines, `base_model` on line 5, `datasets` on line 6. A test appends more keys
// of spec, indented by two, from line 7 on.
inline const char* const kSmallJob =
    "apiVersion: coxswain/v1\n"
    "kind: FineTuneJob\n"
    "metadata: {name: tiny}\n"
    "spec:\n"
    "  base_model: ./model\n"
    "  datasets: [{path: ./train.jsonl}]\n";

inline std::string WithSpec(const std::string& lines) { return std::string(kSmallJob) + lines; }

// Every key of the format, each with a value that is supported.
inline const char* const kFullJob = R"(apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: gsm8k-lora, labels: {team: math}}
spec:
  base_model: {path: ./model, hub: null, revision: null, url: null, init: pretrained, seed: 0, added_tokens: []}
  method: sft
  adapter: qlora
  quantization: {format: nf4, double: false}
  lora: {r: 8, gate_up_r: 16, alpha: 16, dropout: 0.0, target_modules: all-linear, target_parameters: [], loraplus_lr_ratio: 4, loraplus_lr_embedding: 1.0e-6,
         use_rslora: true, use_dora: true, init_from: null, modules_to_save: []}
  moe: {router: auto, aux_loss: {coef: null, over: bin}, router_z_loss: 0.0, balance: none, balance_rate: 1.0e-3}
  datasets:
    - {path: ./train.jsonl, format: alpaca, prompt_style: alpaca, weight: 1.5}
    - path: /abs/chat
      hub: null
      revision: null
      name: null
      data_dir: null
      converted: false
      url: null
      data_files: ["*.gz"]
      split: dev
      max_samples: 9
      format: chat
      prompt_style: chat
      field_messages: messages
      field_tools: tools
      field_system: system
      field_instruction: instruction
      field_input: input
      field_output: output
      field_history: history
      special_tokens: auto
      field_prompt: prompt
      field_completion: completion
      field_chosen: null
      field_rejected: null
      field_label: null
      field_text: text
      message_role_key: role
      message_content_key: content
      roles: {user: [human], assistant: gpt}
  test_datasets: [{path: ./held_out.jsonl, format: completion, prompt_style: alpaca}]
  val_set_size: null
  data_rules: 2
  chat_template: llama3
  chat_template_kwargs: {enable_thinking: false}
  roles_to_train: [assistant]
  train_on: all
  train_on_eos: turn
  train_on_inputs: true
  on_bad_record: skip
  sequence_len: 512
  excess_length: drop
  packing: {strategy: best_fit_decreasing, window: 1000, max_documents_per_bin: 8}
  train:
    global_batch_size: 64
    micro_batch_size: 4
    gradient_accumulation_steps: 2
    num_epochs: 1.5
    max_steps: null
    learning_rate: 3e-4
    lr_scheduler: linear
    lr_scheduler_kwargs: {num_cycles: null, power: null, timescale: null, num_decay_steps: null,
                          decay_ratio: null, decay_type: null}
    warmup_ratio: 0.1
    min_lr_ratio: 0.05
    optimizer: adamw
    betas: [0.8, 0.95]
    eps: 1.0e-7
    weight_decay: 0.1
    decay_norm_and_bias: false
    max_grad_norm: 0.5
    label_smoothing: 0.1
    z_loss: 1.0e-4
    seed: 7
  preference: {loss: null, loss_weights: null, beta: null, label_smoothing: null, gamma: null, nll_weight: null,
               reference: null, desirable_weight: null, undesirable_weight: null}
  reward: {center_coefficient: null}
  classification: {num_labels: null, label_names: null, problem: null}
  precision: {compute: auto, master_weights: auto, gradients: auto, gradient_sum: auto,
              fp8: {recipe: auto, gradients: auto, activations: kept, weights: kept, gather: auto, experts: bfloat16, attention: bfloat16, exclude: []}}
  recompute: block
  attention: {deterministic: true, workspace_gib: 4}
  loss: {head: chunked, head_memory_mib: 256}
  eval: {eval_steps: 10, early_stopping_patience: 3, metric: eval_loss, sample_prompts: [What, Why], sample_tokens: 9}
  generate: {prompts: [], messages: null, max_new_tokens: 7, temperature: 0.5, top_k: 4, top_p: 0.75, seed: 3}
  checkpoint: {output_dir: ./results, save_steps: 20, save_total_limit: 4, test_save: true, resume: never,
               extend: false}
  export: {merge: true, verify: false, dtype: float32, base_path: false, adapter_layout: per_expert,
           max_shard_size: 5GB,
           gguf: {model: q8_0, adapter: none},
           push_to_hub: {repo: org/tuned, private: false, revision: v2}}
  resources: {device: cpu, workers: 2, spares: 0, priority: -3, max_restarts: 1,
              max_restarts_total: 7}
  parallelism: {replicate: auto, shard: auto, zero: auto, resident_blocks: auto, overlap: false}
  logging: {logging_steps: 5, report_to: [jsonl, tensorboard], dir: ./curves}
)";

}  // namespace coxswain::config

#endif  // COXSWAIN_TESTS_COMMON_CONFIG_JOB_TEXT_H_
