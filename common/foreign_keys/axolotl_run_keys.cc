// Axolotl 067b021: src/axolotl/utils/schemas: how it trains and what it runs on.
#include "common/foreign_keys/foreign_key.h"

namespace coxswain::foreign_keys {
namespace {

constexpr std::string_view kCloud = "where it ran";

std::vector<ForeignKey> TrainKeys() {
  return {
      // clang-format off
      Copied("micro_batch_size", "spec.train.micro_batch_size", "1"),
      Translated("gradient_accumulation_steps", "spec.train.gradient_accumulation_steps"),
      Translated("batch_size", "spec.train.gradient_accumulation_steps",
                 "divided by micro_batch_size"),
      NoEffect("eval_batch_size", "evaluation takes the micro-batch of training"),
      NoEffect("auto_find_batch_size", "what fits is known before the first step: cox plan"),
      Translated("num_epochs", "spec.train.num_epochs", "1 by default"),
      Translated("max_steps", "spec.train.max_steps", "wins over num_epochs"),
      Translated("learning_rate", "spec.train.learning_rate"),
      Refused("embedding_lr", "one rate for all of a full fine-tuning"),
      Refused("embedding_lr_scale", "one rate for all of a full fine-tuning"),
      Refused("lr_groups", "one rate for all of a full fine-tuning"),
      Translated("lr_scheduler", "spec.train.lr_scheduler", "cosine by default"),
      Translated("lr_scheduler_kwargs", "spec.train.lr_scheduler_kwargs"),
      Refused("lr_quadratic_warmup", "warm-up is linear"),
      Translated("cosine_min_lr_ratio", "spec.train.min_lr_ratio"),
      Refused("cosine_constant_lr_ratio", "this schedule has no counterpart"),
      NoEffect("lr_div_factor", "of lr_scheduler: one_cycle"),
      NoEffect("eta_min", "Axolotl reads no such key"),
      Translated("warmup_steps", "spec.train.warmup_steps", "below 1 it is a ratio"),
      Translated("warmup_ratio", "spec.train.warmup_ratio"),
      Translated("optimizer", "spec.train.optimizer"),
      Refused("optim_args", kUpdateRule),
      Refused("optim_target_modules", kUpdateRule),
      NoEffect("torchdistx_path", kKernel),
      Translated("adam_beta1", "spec.train.betas"),
      Translated("adam_beta2", "spec.train.betas"),
      Copied("adam_epsilon", "spec.train.eps"),
      NoEffect("adam_eps", "Axolotl reads adam_epsilon"),
      Copied("weight_decay", "spec.train.weight_decay", "0.0"),
      Translated("max_grad_norm", "spec.train.max_grad_norm", "0 is no clipping"),
      Copied("seed", "spec.train.seed", "42"),
      Translated("bf16", "spec.precision.compute"),
      Translated("bfloat16", "spec.precision.compute"),
      Translated("fp16", "spec.precision.compute"),
      Translated("float16", "spec.precision.compute"),
      Translated("fp8", "spec.precision.compute"),
      NoEffect("fp8_enable_fsdp_float8_all_gather", "of fp8"),
      NoEffect("tf32", "float32 products are never TF32"),
      NoEffect("gradient_checkpointing", kMemory),
      NoEffect("gradient_checkpointing_kwargs", kMemory),
      NoEffect("selective_checkpointing", kMemory),
      NoEffect("activation_offloading", kMemory),
      NoEffect("layer_offloading", kMemory),
      NoEffect("torch_empty_cache_steps", kMemory),
      NoEffect("gc_steps", kMemory),
      NoEffect("tiled_mlp", kMemory),
      NoEffect("full_finetune", "adapter says it"),
      // clang-format on
  };
}

// NOLINTNEXTLINE(readability-function-size) a table
std::vector<ForeignKey> RunKeys() {
  return {
      // clang-format off
      Translated("output_dir", "spec.checkpoint.output_dir"),
      Translated("resume_from_checkpoint", "spec.checkpoint.resume",
                 "checkpoints of other tools are not read"),
      NoEffect("auto_resume_from_checkpoints", "checkpoint.resume is auto"),
      Translated("saves_per_epoch", "spec.checkpoint.save_steps"),
      Translated("save_steps", "spec.checkpoint.save_steps"),
      Translated("save_strategy", "spec.checkpoint.save_steps"),
      Translated("save_total_limit", "spec.checkpoint.save_total_limit"),
      NoEffect("save_only_model", "a checkpoint holds what a resumed job needs"),
      NoEffect("save_first_step", "a checkpoint is saved when one is asked for: cox pause"),
      NoEffect("save_safetensors", "safetensors is what is written"),
      Translated("evals_per_epoch", "spec.eval.eval_steps"),
      Translated("eval_steps", "spec.eval.eval_steps"),
      Translated("eval_strategy", "spec.eval.eval_steps"),
      Translated("evaluation_strategy", "spec.eval.eval_steps"),
      Translated("early_stopping_patience", "spec.eval.early_stopping_patience"),
      Translated("metric_for_best_model", "spec.eval.metric"),
      Translated("greater_is_better", "spec.eval.metric"),
      NoEffect("load_best_model_at_end", "the best checkpoint is kept and exported"),
      NoEffect("eval_table_size", kGeneration),
      NoEffect("eval_max_new_tokens", kGeneration),
      NoEffect("eval_causal_lm_metrics", "loss, perplexity and token accuracy are reported"),
      NoEffect("do_causal_lm_eval", "loss, perplexity and token accuracy are reported"),
      NoEffect("do_bench_eval", kGeneration),
      Differs("loss_watchdog_threshold", "a loss that is not finite fails the job, a high one not"),
      NoEffect("loss_watchdog_patience", "of loss_watchdog_threshold"),
      Translated("logging_steps", "spec.logging.logging_steps"),
      NoEffect("debug", kReport),
      NoEffect("use_wandb", kTracker),
      NoEffect("wandb_project", kTracker),
      NoEffect("wandb_entity", kTracker),
      NoEffect("wandb_watch", kTracker),
      NoEffect("wandb_name", kTracker),
      NoEffect("wandb_run_id", kTracker),
      NoEffect("wandb_log_model", kTracker),
      NoEffect("wandb_mode", kTracker),
      NoEffect("use_mlflow", kTracker),
      NoEffect("mlflow_tracking_uri", kTracker),
      NoEffect("mlflow_experiment_name", kTracker),
      NoEffect("use_tensorboard", kTracker),
      NoEffect("use_comet", kTracker),
      NoEffect("use_trackio", kTracker),
      NoEffect("trackio_project_name", kTracker),
      NoEffect("trackio_run_name", kTracker),
      NoEffect("trackio_space_id", kTracker),
      NoEffect("use_swanlab", kTracker),
      NoEffect("swanlab_project", kTracker),
      NoEffect("swanlab_experiment_name", kTracker),
      NoEffect("swanlab_description", kTracker),
      NoEffect("swanlab_mode", kTracker),
      NoEffect("swanlab_workspace", kTracker),
      NoEffect("swanlab_log_model", kTracker),
      NoEffect("use_otel_metrics", kTracker),
      NoEffect("otel_metrics_host", kTracker),
      NoEffect("otel_metrics_port", kTracker),
      NoEffect("project_name", kTracker),
      Translated("dp_shard_size", "spec.resources.workers", "times dp_replicate_size"),
      Translated("dp_replicate_size", "spec.resources.workers", "times dp_shard_size"),
      NoEffect("context_parallel_size", kMesh),
      NoEffect("tensor_parallel_size", kMesh),
      NoEffect("expert_parallel_size", kMesh),
      NoEffect("expert_parallel_token_capacity", kMesh),
      NoEffect("expert_parallel_num_nvl_bytes", kMesh),
      NoEffect("fsdp", kMesh),
      NoEffect("fsdp_config", kMesh),
      NoEffect("fsdp_version", kMesh),
      NoEffect("deepspeed", kMesh),
      NoEffect("ddp", kMesh),
      NoEffect("ddp_timeout", kMesh),
      NoEffect("ddp_find_unused_parameters", kMesh),
      NoEffect("ddp_bucket_cap_mb", kMesh),
      NoEffect("local_rank", kMesh),
      NoEffect("accelerator_config", kMesh),
      NoEffect("experimental_skip_move_to_device", kMesh),
      NoEffect("use_ray", kMesh),
      Translated("ray_num_workers", "spec.resources.workers", "read with use_ray: true"),
      NoEffect("secrets", kCloud),
      NoEffect("gpu", kCloud),
      NoEffect("gpu_count", kCloud),
      // clang-format on
  };
}

std::vector<ForeignKey> KernelKeys() {
  std::vector<ForeignKey> rows;
  for (const std::string_view name : {"attn_implementation",
                                      "flash_attention",
                                      "flash_attn_cross_entropy",
                                      "flash_attn_fuse_mlp",
                                      "flash_attn_rms_norm",
                                      "flash_optimum",
                                      "xformers_attention",
                                      "sdp_attention",
                                      "flex_attention",
                                      "flex_attn_compile_kwargs",
                                      "sage_attention",
                                      "eager_attention",
                                      "gemma4_hybrid_attn_impl",
                                      "fused_attn_kernel",
                                      "liger_rope",
                                      "liger_rms_norm",
                                      "liger_rms_norm_gated",
                                      "liger_layer_norm",
                                      "liger_glu_activation",
                                      "liger_swiglu",
                                      "liger_cross_entropy",
                                      "liger_fused_linear_cross_entropy",
                                      "cut_cross_entropy",
                                      "torch_compile",
                                      "torch_compile_backend",
                                      "torch_compile_mode",
                                      "use_kernels",
                                      "use_scattermoe",
                                      "use_sonicmoe",
                                      "experts_implementation",
                                      "llama4_linearized_experts",
                                      "use_dsv4_kernels",
                                      "use_glm_dsa_kernels",
                                      "dsv4_fp4_grouped_mode",
                                      "chunked_cross_entropy",
                                      "unsloth_lora_mlp",
                                      "unsloth_lora_qkv",
                                      "unsloth_lora_o"}) {
    rows.push_back(NoEffect(name, kKernel));
  }
  return rows;
}

}  // namespace

std::vector<ForeignKey> AxolotlRunKeys() {
  std::vector<ForeignKey> rows;
  for (const auto& part : {TrainKeys(), RunKeys(), KernelKeys()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace coxswain::foreign_keys
