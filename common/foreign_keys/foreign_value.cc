#include "common/foreign_keys/foreign_value.h"

namespace coxswain::foreign_keys {
namespace {

constexpr std::string_view kOptimizer = "spec.train.optimizer";
constexpr std::string_view kScheduler = "spec.train.lr_scheduler";
constexpr std::string_view kFormat = "spec.datasets[].format";
constexpr std::string_view kPacking = "spec.packing.strategy";
constexpr std::string_view kPaged = "where its states lie is planned";
constexpr std::string_view kEightBits = "states of eight bits are the nearest";
constexpr std::string_view kBits = "theirs keeps the states of an embedding in 32 bits";
constexpr std::string_view kPagedBits =
    "where its states lie is planned; theirs keeps those of an embedding in 32 bits";

constexpr ForeignValue kValues[] = {
    // clang-format off
    {kOptimizer, "adamw_torch", "adamw"}, {kOptimizer, "adamw_torch_fused", "adamw"},
    {kOptimizer, "adamw_hf", "adamw"}, {kOptimizer, "adamw_apex_fused", "adamw"},
    {kOptimizer, "adamw_torch_xla", "adamw"}, {kOptimizer, "optimi_adamw", "adamw"},
    {kOptimizer, "flash_adamw", "adamw"}, {kOptimizer, "adamw_anyprecision", "adamw"},
    {kOptimizer, "paged_adamw", "adamw", kPaged},
    {kOptimizer, "paged_adamw_32bit", "adamw", kPaged},
    {kOptimizer, "adamw_bnb_8bit", "adamw_8bit", kBits},
    {kOptimizer, "adamw_8bit", "adamw_8bit", kBits},
    {kOptimizer, "paged_adamw_8bit", "adamw_8bit", kPagedBits},
    {kOptimizer, "adamw_torch_8bit", "adamw_8bit"}, {kOptimizer, "ao_adamw_8bit", "adamw_8bit"},
    {kOptimizer, "adamw_torch_4bit", "adamw_8bit", kEightBits},
    {kOptimizer, "ao_adamw_4bit", "adamw_8bit", kEightBits},
    {kOptimizer, "ao_adamw_fp8", "adamw_8bit", kEightBits},
    {kOptimizer, "schedule_free_adamw", "schedule_free"},
    {kScheduler, "constant_with_warmup", "constant"}, {kScheduler, "cosine_with_min_lr", "cosine"},
    {kScheduler, "wsd", "warmup_stable_decay"},
    {kFormat, "chat_template", "chat"}, {kFormat, "messages", "chat"}, {kFormat, "openai", "chat"},
    {kFormat, "pretrain", "completion"}, {kFormat, "text", "completion"},
    {kPacking, "bfd", "best_fit_decreasing"}, {kPacking, "ffd", "first_fit"},
    {"spec.resources.device", "gpu", "cuda"}, {"spec.resources.device", "cuda:0", "cuda"},
    {"spec.adapter", "full", "none"}, {"spec.method", "pt", "pretrain"},
    {"spec.method", "ipo", "dpo with preference.loss: ipo"},
    {"spec.method", "rm", "reward"}, {"spec.preference.loss", "dpo", "sigmoid"},
    {"spec.preference.loss", "rpo", "[sigmoid, sft] with loss_weights"},
    {"spec.excess_length", "raise", "error"}, {"spec.excess_length", "skip", "drop"},
    {"spec.lora.target_modules", "all", "all-linear"},
    {"spec.lora.target_modules", "all_linear", "all-linear"},
    {"spec.precision.compute", "half", "float16"}, {"spec.recompute", "full", "block"},
    {"spec.base_model.init", "from_scratch", "random"},
    // clang-format on
};

}  // namespace

const ForeignValue* FindForeignValue(std::string_view path, std::string_view theirs) {
  for (const ForeignValue& value : kValues) {
    if (value.path == path && value.theirs == theirs) return &value;
  }
  return nullptr;
}

}  // namespace coxswain::foreign_keys
