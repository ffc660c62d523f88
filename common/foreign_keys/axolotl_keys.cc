// Axolotl 067b021: src/axolotl/utils/schemas.
#include "common/foreign_keys/rows.h"

namespace coxswain::foreign_keys {
namespace {

constexpr std::string_view kSomeWeights = "training some of the weights has no counterpart";
constexpr std::string_view kConfigJson =
    "of output_router_logits; else config.json is that of the model's directory";
constexpr std::string_view kOldTokens = "tokens that are there keep their text and their rows";

std::vector<ForeignKey> ModelKeys() {
  return {
      // clang-format off
      Translated("base_model", "spec.base_model", "hub of a name, path of a folder"),
      Refused("base_model_config", "config.json is that of the model's directory"),
      NoEffect("base_model_ignore_patterns", "files that training does not read stay away"),
      Translated("revision_of_model", "spec.base_model.revision", "of a name of the Hub"),
      NoEffect("model_type", "the family is told by config.json"),
      NoEffect("cls_model_config", "the family is told by config.json"),
      NoEffect("type_of_model", "the family is told by config.json"),
      Translated("overrides_of_model_config", "spec.moe.aux_loss.coef", kConfigJson),
      Refused("overrides_of_model_kwargs", "config.json is that of the model's directory"),
      Translated("model_config", "spec.moe.aux_loss.coef", kConfigJson),
      NoEffect("model_quantization_config", "of a quantised base"),
      NoEffect("model_quantization_config_kwargs", "of a quantised base"),
      Refused("tokenizer_config", "the tokenizer is that of the model's directory"),
      NoEffect("tokenizer_type", "the tokenizer is that of tokenizer.json"),
      NoEffect("tokenizer_use_fast", "the tokenizer is that of tokenizer.json"),
      NoEffect("tokenizer_legacy", "the tokenizer is that of tokenizer.json"),
      NoEffect("tokenizer_use_mistral_common", "the tokenizer is that of tokenizer.json"),
      Refused("processor_type", kVision),
      Refused("processor_config", kVision),
      Refused("freeze_mm_modules", kVision),
      Refused("image_size", kVision),
      NoEffect("trust_remote_code", kCodeOfModel),
      NoEffect("hf_use_auth_token", kHubToken),
      Translated("hub_model_id", "spec.export.push_to_hub.repo"),
      Translated("hub_revision", "spec.export.push_to_hub.revision"),
      NoEffect("hub_strategy", kPushedOnce),
      NoEffect("push_dataset_to_hub", "prepared data is not sent anywhere"),
      NoEffect("dataset_prepared_path", "prepared data is cached by content"),
      NoEffect("strict", "unknown keys are told"),
      NoEffect("low_cpu_mem_usage", kMemory),
      NoEffect("device_map", kMesh),
      NoEffect("is_llama_derived_model", "the family is told by config.json"),
      NoEffect("is_mistral_derived_model", "the family is told by config.json"),
      NoEffect("is_falcon_derived_model", "the family is told by config.json"),
      NoEffect("torch_dtype", "the dtype is that of precision"),
      Translated("special_tokens", "",
                 "padding is not trained; other special tokens are those of the tokenizer"),
      Translated("tokens", "spec.base_model.added_tokens", "as special tokens"),
      Refused("added_tokens_overrides", kOldTokens),
      NoEffect("resize_token_embeddings_to_32x", "rows that no token uses train nothing"),
      NoEffect("mean_resizing_embeddings", "of added tokens"),
      NoEffect("shrink_embeddings", "rows that no token uses train nothing"),
      NoEffect("embeddings_skip_upcast", kMemory),
      Translated("reinit_weights", "spec.base_model.init"),
      Refused("unfrozen_parameters", kSomeWeights),
      Refused("lisa_n_layers", kSomeWeights),
      NoEffect("lisa_step_interval", "of lisa_n_layers"),
      NoEffect("lisa_layers_attribute", "of lisa_n_layers"),
      // clang-format on
  };
}

std::vector<ForeignKey> AdapterKeys() {
  return {
      // clang-format off
      Translated("adapter", "spec.adapter"),
      Translated("load_in_4bit", "spec.adapter: qlora"),
      Translated("load_in_8bit", "spec.adapter: qlora"),
      Translated("gptq", "spec.adapter: qlora"),
      NoEffect("gptq_groupsize", "of gptq"),
      NoEffect("gptq_model_v1", "of gptq"),
      NoEffect("gptq_disable_exllama", "of gptq"),
      NoEffect("bnb_config_kwargs", "of load_in_4bit"),
      NoEffect("quantize_moe_experts", "experts are quantised with the other linears"),
      NoEffect("qlora_sharded_model_loading", kMesh),
      NoEffect("lora_on_cpu", kMemory),
      Translated("lora_model_dir", "spec.lora.init_from"),
      Translated("lora_r", "spec.lora.r"),
      Translated("lora_alpha", "spec.lora.alpha"),
      Translated("lora_dropout", "spec.lora.dropout", "0 by default"),
      Translated("lora_target_modules", "spec.lora.target_modules"),
      Translated("lora_target_linear", "spec.lora.target_modules", "true: all-linear"),
      Translated("lora_target_parameters", "spec.lora.target_parameters"),
      Translated("lora_modules_to_save", "spec.lora.modules_to_save"),
      NoEffect("lora_fan_in_fan_out", "weights lie as checkpoints have them"),
      Refused("lora_rank_pattern", "one rank for all; lora.gate_up_r for stacks of gate and up"),
      Refused("lora_alpha_pattern", "one alpha for all adapters"),
      Refused("peft_layers_to_transform", kSomeWeights),
      Refused("peft_layers_pattern", kSomeWeights),
      Refused("peft_layer_replication", "a model with other layers has no counterpart"),
      Refused("peft_trainable_token_indices", kOldTokens),
      Refused("peft_init_lora_weights", "this start of an adapter has no counterpart"),
      Refused("peft", "this start of an adapter has no counterpart"),
      NoEffect("peft_autocast_adapter_dtype", "adapters are float32"),
      Translated("peft_use_dora", "spec.lora.use_dora"),
      Translated("peft_use_rslora", "spec.lora.use_rslora"),
      Translated("loraplus_lr_ratio", "spec.lora.loraplus_lr_ratio", "off by default: 1"),
      NoEffect("loraplus_lr_embedding", "embeddings have no adapter"),
      NoEffect("lora_mlp_kernel", kKernel),
      NoEffect("lora_qkv_kernel", kKernel),
      NoEffect("lora_o_kernel", kKernel),
      NoEffect("lora_embedding_kernel", kKernel),
      NoEffect("merge_lora", "merging is an export: export.merge"),
      NoEffect("merge_method", "merging is an export: export.merge"),
      NoEffect("nvfp4_merge_aware", "merging is an export: export.merge"),
      Refused("relora", "adapters that restart have no counterpart"),
      NoEffect("relora_prune_ratio", "of relora"),
      NoEffect("relora_cpu_offload", "of relora"),
      Refused("jagged_restart_steps", "this schedule has no counterpart"),
      NoEffect("jagged_restart_warmup_steps", "of jagged_restart_steps"),
      NoEffect("jagged_restart_anneal_steps", "of jagged_restart_steps"),
      // clang-format on
  };
}

std::vector<ForeignKey> MethodKeys() {
  return {
      // clang-format off
      Refused("rl", kPreference, "spec.method: dpo"),
      Refused("rl_beta", kPreference, "spec.method: dpo"),
      Refused("orpo_alpha", kPreference, "spec.method: orpo"),
      Refused("kto_desirable_weight", kPreference, "spec.method: kto"),
      Refused("trl", kPreference),
      Refused("vllm", kGeneration),
      Refused("ebft", kPreference),
      Refused("reward_model", kPreference),
      Refused("process_reward_model", kPreference),
      NoEffect("center_rewards_coefficient", "of reward_model"),
      Refused("num_labels", "a classifier has no counterpart"),
      Refused("qat", "training for a quantised export has no counterpart"),
      NoEffect("quantization", "quantising is another tool's export"),
      Refused("diffusion", "diffusion models have no counterpart"),
      Refused("llmcompressor", "sparse training has no counterpart"),
      Refused("use_pose", "skipped positions have no counterpart"),
      Refused("use_eaft", kLossRule),
      NoEffect("eaft_alpha", "of use_eaft"),
      NoEffect("eaft_k", "of use_eaft"),
      Refused("neftune_noise_alpha", "noise on embeddings has no counterpart"),
      Refused("noisy_embedding_alpha", "noise on embeddings has no counterpart"),
      Refused("use_onebitllms", "ternary weights have no counterpart"),
      Translated("plugins", "", "those that only bring kernels or trackers change nothing"),
      // clang-format on
  };
}

// NOLINTNEXTLINE(readability-function-size) a table
std::vector<ForeignKey> DataKeys() {
  return {
      // clang-format off
      Translated("datasets", "spec.datasets"),
      Translated("test_datasets", "spec.test_datasets"),
      Translated("pretraining_dataset", "spec.datasets", "with method: pretrain"),
      Translated("datasets[].path", "spec.datasets[].path"),
      Translated("datasets[].type", "spec.datasets[].format"),
      Translated("datasets[].data_files", "spec.datasets[].data_files"),
      Translated("datasets[].name", "spec.datasets[].name", kConfigOfFolder),
      Translated("datasets[].data_dir", "spec.datasets[].data_dir", kDirOfFolder),
      Translated("datasets[].split", "spec.datasets[].split"),
      NoEffect("datasets[].ds_type", "the kind of a file is told by its content"),
      Translated("datasets[].revision", "spec.datasets[].revision", "of a name of the Hub"),
      NoEffect("datasets[].trust_remote_code", "no code of a data set is run"),
      NoEffect("datasets[].preprocess_shards", kLoader),
      Refused("datasets[].shards", "a part of a source by index has no counterpart"),
      NoEffect("datasets[].shards_idx", "of shards"),
      Translated("datasets[].conversation", "spec.chat_template"),
      Translated("datasets[].chat_template", "spec.chat_template"),
      Translated("datasets[].chat_template_jinja", "spec.chat_template"),
      Translated("datasets[].field", "spec.datasets[].field_text"),
      Translated("datasets[].text_column", "spec.datasets[].field_text"),
      Copied("datasets[].field_messages", "spec.datasets[].field_messages"),
      Copied("datasets[].field_tools", "spec.datasets[].field_tools"),
      Copied("datasets[].field_system", "spec.datasets[].field_system"),
      Translated("datasets[].field_human", "spec.datasets[].field_prompt"),
      Translated("datasets[].field_model", "spec.datasets[].field_completion"),
      Translated("datasets[].message_property_mappings", "spec.datasets[].message_role_key"),
      Translated("datasets[].message_field_role", "spec.datasets[].message_role_key"),
      Translated("datasets[].message_field_content", "spec.datasets[].message_content_key"),
      Translated("datasets[].message_field_training", "spec.datasets[].format",
                 "a message's own key train is read"),
      Refused("datasets[].message_field_training_detail", "a mask inside a message has none here"),
      Differs("datasets[].field_thinking", "a reasoning trace is read from reasoning_content"),
      Differs("datasets[].template_thinking_key", "the template reads reasoning_content"),
      Differs("datasets[].split_thinking", "traces inside the content are the template's matter"),
      Refused("datasets[].drop_system_message", "system turns are kept"),
      Copied("datasets[].roles", "spec.datasets[].roles"),
      Translated("datasets[].roles_to_train", "spec.roles_to_train"),
      Translated("datasets[].train_on_eos", "spec.train_on_eos"),
      Translated("datasets[].train_on_eot", "spec.train_on_eos"),
      Refused("datasets[].input_transform", "records are read as they are"),
      NoEffect("datasets[].max_completion_length", kPreference),
      NoEffect("datasets[].step_separator", kPreference),
      NoEffect("datasets[].train_on_last_step_only", kPreference),
      Translated("chat_template", "spec.chat_template"),
      Translated("chat_template_jinja", "spec.chat_template"),
      Copied("chat_template_kwargs", "spec.chat_template_kwargs"),
      NoEffect("default_system_message", "of templates that Axolotl brings"),
      NoEffect("eot_tokens", "what a turn adds, its end included, is told by the template"),
      Translated("val_set_size", "spec.val_set_size", "0 by default"),
      Copied("train_on_inputs", "spec.train_on_inputs", "false"),
      Translated("sequence_len", "spec.sequence_len", "512 by default"),
      Translated("max_packed_sequence_len", "spec.sequence_len"),
      Differs("eval_sequence_len", "evaluation takes sequence_len"),
      Translated("excess_length_strategy", "spec.excess_length", "drop by default"),
      Differs("min_sample_len", "short records are trained"),
      Translated("sample_packing", "spec.packing.strategy", "off by default: none"),
      Translated("sample_packing_group_size", "spec.packing.window", "100000 by default"),
      Translated("sample_packing_bin_size", "spec.packing.max_documents_per_bin",
                 "200 by default"),
      Differs("sample_packing_sequentially", "bins are shuffled by the seed"),
      Differs("curriculum_sampling", "bins are shuffled by the seed"),
      NoEffect("sample_packing_mp_start_method", kLoader),
      NoEffect("sample_packing_eff_est", "steps are counted, not estimated"),
      NoEffect("sample_packing_seq_len_multiplier", "bins have sequence_len tokens"),
      NoEffect("total_num_tokens", "steps are counted, not estimated"),
      NoEffect("multipack_real_batches", "tokens of a step are the same"),
      NoEffect("eval_sample_packing", "the loss is over targets, however they are packed"),
      NoEffect("batch_flattening", "bins hold no padding that is computed"),
      NoEffect("pad_to_sequence_len", "bins hold no padding that is trained"),
      NoEffect("pad_to_multiple_of", "bins hold no padding that is trained"),
      Differs("group_by_length", "the order of bins does not follow length"),
      NoEffect("shuffle_merged_datasets", "bins are shuffled by the seed"),
      NoEffect("shuffle_before_merging_datasets", "bins are shuffled by the seed"),
      Differs("dataset_exact_deduplication", "equal records stay"),
      NoEffect("skip_prepare_dataset", kLoader),
      NoEffect("remove_unused_columns", kLoader),
      NoEffect("dataset_keep_in_memory", kLoader),
      NoEffect("dataset_processes", kLoader),
      NoEffect("dataset_num_proc", kLoader),
      NoEffect("dataloader_num_workers", kLoader),
      NoEffect("dataloader_pin_memory", kLoader),
      NoEffect("dataloader_prefetch_factor", kLoader),
      Differs("dataloader_drop_last", "the last batch of a pass may be smaller"),
      NoEffect("streaming", kLoader),
      NoEffect("streaming_multipack_buffer_size", kLoader),
      NoEffect("pretrain_multipack_buffer_size", kLoader),
      NoEffect("pretrain_multipack_attn", "documents of a bin never see each other"),
      // clang-format on
  };
}

}  // namespace

std::vector<ForeignKey> AxolotlKeys() {
  std::vector<ForeignKey> rows;
  for (const auto& part :
       {ModelKeys(), AdapterKeys(), MethodKeys(), DataKeys(), AxolotlRunKeys()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace coxswain::foreign_keys
