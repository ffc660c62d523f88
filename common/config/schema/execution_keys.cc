#include "common/config/schema/execution_keys.h"

#include <string_view>
#include <utility>

#include "common/config/schema/key.h"

namespace coxswain::config {
namespace {

using ShortForms = std::vector<std::pair<std::string_view, std::string_view>>;

ShortForms FloatShortForms() {
  return {{"bf16", "bfloat16"}, {"fp32", "float32"}, {"fp16", "float16"}};
}

}  // namespace

// A table. NOLINTNEXTLINE(readability-function-size)
void AppendExecutionKeys(std::vector<Key>* t) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.precision",
       .doc = "Number formats. `auto` is bfloat16 on cuda and float32 on cpu."},
      {.path = "spec.precision.compute", .type = Type::kWord, .def = "auto",
       .words = {"auto", "float32", "bfloat16", "fp8"}, .later = {"float16"},
       .doc = "Format of weights and activations. bfloat16 needs `device: cuda`. fp8: products of "
              "the blocks' linears take operands of 8 bits; all else is as with `auto`. A GPU "
              "needs compute capability 8.9 (tensorwise, delayed) or 9.0; a cpu worker computes "
              "the same roundings, slowly.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.fp8", .doc = "Of `compute: fp8`."},
      {.path = "spec.precision.fp8.recipe", .type = Type::kWord, .def = "auto",
       .words = {"auto", "tensorwise", "rowwise", "blockwise", "delayed"},
       .doc = "What shares a scale. `tensorwise`: all of an operand. `rowwise`: a row of it along "
              "the sum. `blockwise`: 128 neighbours of an activation or a gradient, 128 x 128 of a "
              "weight. `delayed`: all of an operand, whose scale is known before it is read: twice "
              "its largest value of the last 32 updates; of weights as `tensorwise`. `auto`: "
              "tensorwise."},
      {.path = "spec.precision.fp8.gradients", .type = Type::kWord, .def = "auto",
       .words = {"auto", "e4m3", "e5m2"},
       .doc = "Format of the gradients of outputs. `auto`: e5m2 tensorwise and delayed, e4m3 "
              "else."},
      {.path = "spec.precision.fp8.activations", .type = Type::kWord, .def = "kept",
       .words = {"kept", "bfloat16"},
       .doc = "`kept`: what backward reads of norms and gated products for the gradients of "
              "weights is kept in 8 bits alone. `bfloat16`: it is kept as it is (float32 on cpu), "
              "and quantised again.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.fp8.weights", .type = Type::kWord, .def = "kept",
       .words = {"kept", "bfloat16"},
       .doc = "`kept`: codes of weights stay beside the weights, two bytes an element more, where "
              "memory is left. With `parallelism.zero: 3` none are kept. `bfloat16`: weights are "
              "quantised as they are read, which made steps of 7B 5 to 8 % longer on an H200.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.fp8.gather", .type = Type::kWord, .def = "auto",
       .words = {"auto", "bfloat16", "fp8"},
       .doc = "How ranks gather the weights of these linears under `parallelism.zero: 3`; without "
              "it none are gathered block by block, and the key has no effect. `bfloat16`: as "
              "they are (float32 on cpu), and quantised as they are read. `fp8`: as codes, a byte "
              "an element, which slots of blocks hold too. On cpu losses and gradients have the "
              "same bits as with `bfloat16`. The norm of the gradients is equal up to the "
              "rounding of float64: each rank owns other elements of a block, so that squares are "
              "added in another order. The factor of a clipped update is the same float32 or the "
              "next one. On GPUs NCCL may also add gradients in another order. `fp8` goes with "
              "tensorwise and delayed: ranks hold parts of weights that are no whole rows or "
              "blocks. Models that answer prompts have slots as with bfloat16, as answers read "
              "whole weights; DoRA reads them too, and is refused. `auto`: fp8 where it goes, as "
              "it was faster on two H200s and took less memory.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.fp8.experts", .type = Type::kWord, .def = "bfloat16",
       .words = {"bfloat16", "fp8"},
       .doc = "Products of the linears of a mixture's experts. `fp8`: those that read rows, which "
              "are forward and the gradient of the rows, with one scale for all rows and one for "
              "each expert's matrix. Gradients of the weights of trained experts stay as with "
              "`bfloat16`, as they sum over any number of rows. It goes with tensorwise and "
              "delayed; a GPU needs compute capability 9.0. Codes of all experts take two bytes "
              "an element beside the weights in training. Where memory has no room for them, "
              "experts are quantised in every micro-step. That takes longer than the products "
              "save where an expert has few rows. `cox plan` says whether codes are kept, and the "
              "time. `bfloat16`: as with `compute: auto`; it is the default, as fp8 was slower "
              "where codes of experts are not kept. Without experts the key has no effect.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.fp8.attention", .type = Type::kWord, .def = "bfloat16",
       .words = {"bfloat16", "fp8"},
       .doc = "Products of attention. `fp8`: those of forward, in training and evaluation. Each "
              "row of q of a head has a scale, and 128 keys of a document have one for k and "
              "one for v; probabilities are codes too. Backward computes as with `bfloat16`, on "
              "q, k and v as they were rounded. Answers to prompts stay as with `bfloat16`. It "
              "goes with every recipe, and is faster where heads are 128 wide, from documents "
              "of about 3,000 tokens on. Heads are multiples of 16 up to 128 elements wide; "
              "models with a softcap of scores or with latent attention are refused. A GPU "
              "needs compute capability 9.0, and workspace for the codes: `cox plan` says how "
              "much, with the time. `bfloat16`: as with `compute: auto`.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.fp8.exclude", .type = Type::kStringList, .def = "[]",
       .doc = "Linears whose products stay as with `auto`: `down_proj`, `layers.0`, or a pattern "
              "of a whole name. Of q, k and v, or gate and up, one name means all, as their "
              "product is one. With `experts: fp8`, `experts` means all stacks of experts, "
              "`experts.down_proj` those of down."},
      {.path = "spec.precision.master_weights", .type = Type::kWord, .def = "auto",
       .words = {"auto", "float32", "bfloat16"},
       .doc = "Format of the optimizer's copy of the weights. bfloat16: there is no copy, and the "
              "weights are rounded stochastically. `auto`: float32 when it fits the memory "
              "without computing products again. Adapters always keep float32.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.gradients", .type = Type::kWord, .def = "auto",
       .words = {"auto", "float32", "bfloat16"},
       .doc = "Format of the gradients of the base model's matrices; all others accumulate in "
              "float32. `auto`: float32 when it fits the memory.",
       .short_forms = FloatShortForms()},
      {.path = "spec.precision.gradient_sum", .type = Type::kWord, .def = "auto",
       .words = {"auto", "nearest", "stochastic", "compensated"},
       .doc = "How gradients in bfloat16 are added over micro-steps and chunks of the head. "
              "`nearest`: what is below half an ulp of the sum is lost. `stochastic`: rounded up "
              "or down by chance, right in the mean. `compensated`: Kahan's sum, what was rounded "
              "away is kept in bfloat16 beside the gradient, in as much memory. `auto`: to nearest "
              "up to 64 additions in a step; above that the first that fits the memory of float32 "
              "gradients (with `gradients: auto`), compensated, stochastic.",
       .before = "nearest"},
      {.path = "spec.recompute", .type = Type::kWord, .def = "auto",
       .range = {.min = 1, .max = 10000},
       .words = {"auto", "none", "norm_swiglu", "expert_out", "ffn", "block"},
       .doc = "What backward computes again instead of keeping in memory. `norm_swiglu`: norms, "
              "the gated product and the rows that go to experts. `expert_out`, with experts: "
              "these and what experts put out. `ffn`: these, gate and up, so of experts all. "
              "`block`: whole blocks. `{every: k}`: whole segments of k blocks. `auto`: as little "
              "as fits. What a router chose is kept at each.", .count_key = "every"},
      {.path = "spec.attention", .doc = "Attention kernels."},
      {.path = "spec.attention.deterministic", .type = Type::kBool, .def = "true",
       .doc = "The same bits in every run. `false` may be faster on cuda; the plan says where it "
              "is not."},
      {.path = "spec.attention.workspace_gib", .type = Type::kNumberOrAuto, .def = "auto",
       .range = {.min = 0.0625, .max = 1024},
       .doc = "Most workspace of attention on cuda, in GiB. An algorithm that needs more is not "
              "taken; attention in FP8 takes what its codes need. `auto`: the need of the fastest "
              "algorithm. Up to 4 GiB of it count like other memory; more is taken only if the "
              "rest of the plan leaves it free."},
      {.path = "spec.loss", .doc = "How the loss of tokens is computed."},
      {.path = "spec.loss.head", .type = Type::kWord, .def = "auto",
       .words = {"auto", "chunked", "cut"},
       .doc = "`chunked`: logits of some rows at a time, whose gradient takes their place. `cut`: "
              "logits are computed twice, for the loss and for the gradients, and their gradient "
              "exists for a range of the vocabulary at a time; not with an adapter of the head. "
              "`auto`: `chunked`, and where a GPU's memory holds no plan with it smaller chunks or "
              "`cut`, whichever is predicted to be faster."},
      {.path = "spec.loss.head_memory_mib", .type = Type::kIntOrAuto, .def = "auto",
       .range = {.min = 1, .max = 1 << 20},
       .doc = "Most memory of the LM head's logits, in MiB: a chunk has the rows that fit. Fewer "
              "rows run slower. `auto`: 64 on cpu; on cuda 1280, and 5120 where the head is "
              "trained, nothing is computed again and memory is left. With `head: cut` that of its "
              "workspace; `auto`: 64 on cpu, 136 on cuda, more if the rows need it."},
      {.path = "spec.eval",
       .doc = "Evaluation on `test_datasets` or `val_set_size`. It always runs at step 0 and at "
              "the end."},
      {.path = "spec.eval.eval_steps", .type = Type::kInt, .def = "100", .range = kAtLeastZero,
       .doc = "Steps between evaluations; 0: only at step 0 and at the end."},
      {.path = "spec.eval.early_stopping_patience", .type = Type::kInt, .def = "null",
       .range = kAtLeastOne,
       .doc = "The job stops after this many evaluations without improvement.",
       .nullable = true},
      {.path = "spec.eval.metric", .type = Type::kWord, .def = "eval_loss",
       .words = {"eval_loss", "eval_rewards/margins", "eval_rewards/accuracies", "eval_accuracy"},
       .doc = "The number that early stopping compares: the loss, which is to fall; of dpo, orpo, "
              "cpo, simpo and reward `eval_rewards/margins` or `eval_rewards/accuracies`, of kto "
              "the first, of classification `eval_accuracy`, which are to rise."},
      {.path = "spec.eval.sample_prompts", .type = Type::kStringList, .def = "[]",
       .doc = "Texts that the model answers greedily, before training and at each evaluation, so "
              "that answers can be compared. Each is asked in the format of the first dataset: as "
              "an instruction under `prompt_style: alpaca`, as the text itself of a source of "
              "text, else as one user message of the chat template. At most 64."},
      {.path = "spec.eval.sample_tokens", .type = Type::kInt, .def = "64",
       .range = {.min = 1, .max = 1024}, .doc = "Most tokens of an answer to a sample prompt."},
      {.path = "spec.generate", .doc = "Read when `method: generate`."},
      {.path = "spec.generate.prompts", .type = Type::kStringList, .def = "[]",
       .doc = "Texts to answer; at most 64."},
      {.path = "spec.generate.style", .type = Type::kWord, .def = "auto",
       .words = {"auto", "chat", "alpaca", "text"},
       .doc = "How a prompt is asked. `chat`: as one user message of the chat template. `alpaca`: "
              "as an instruction in Alpaca's words. `text`: as it is. `auto`: `chat` where the job "
              "or the model has a chat template, else `text`."},
      {.path = "spec.generate.messages", .type = Type::kString, .def = "null",
       .doc = "A conversation to answer instead of prompts: a JSON list of {role, content}.",
       .nullable = true},
      {.path = "spec.generate.max_new_tokens", .type = Type::kInt, .def = "256",
       .range = kAtLeastOne,
       .doc = "Most tokens of an answer. Prompt and answer together have at most `sequence_len`."},
      {.path = "spec.generate.temperature", .type = Type::kNumber, .def = "0",
       .range = kNonNegative, .doc = "0: always the likeliest token. Above 0: tokens are drawn."},
      {.path = "spec.generate.top_k", .type = Type::kInt, .def = "0", .range = kAtLeastZero,
       .doc = "Draw from this many of the likeliest tokens; 0: from all."},
      {.path = "spec.generate.top_p", .type = Type::kNumber, .def = "1.0",
       .range = {.min = 0, .max = 1, .min_open = true},
       .doc = "Draw from the likeliest tokens that together have this probability."},
      {.path = "spec.generate.seed", .type = Type::kInt, .def = "0", .range = kAtLeastZero,
       .doc = "Seed of the draws."},
      {.path = "spec.checkpoint", .doc = "Where and how often state is saved."},
      {.path = "spec.checkpoint.output_dir", .type = Type::kPath, .def = "./out",
       .doc = "Checkpoints and the exported artifact; one per job.", .path_use = PathUse::kWritten},
      {.path = "spec.checkpoint.save_steps", .type = Type::kInt, .def = "100", .range = kAtLeastOne,
       .doc = "Steps between checkpoints."},
      {.path = "spec.checkpoint.save_total_limit", .type = Type::kInt, .def = "3",
       .range = {.min = 2, .max = 1000}, .doc = "Number of checkpoints that are kept."},
      {.path = "spec.checkpoint.test_save", .type = Type::kBool, .def = "false",
       .doc = "Save and read back a checkpoint after the first step; one that fails ends the job."},
      {.path = "spec.checkpoint.resume", .type = Type::kResume, .def = "auto",
       .doc = "`auto` (newest of output_dir made by the same recipe), `never`, `<job>[:step]` or a "
              "path. Where checkpoints of another recipe alone are found, the job is refused; the "
              "error names each key that differs."},
      {.path = "spec.checkpoint.extend", .type = Type::kBool, .def = "false",
       .doc = "Continue also from a checkpoint whose recipe differs only in `num_epochs` or "
              "`max_steps`, with its optimizer's moments. Its steps are not trained again. The "
              "learning rate is that of the new number of steps."},
      {.path = "spec.export", .doc = "What is exported at the end."},
      {.path = "spec.export.merge", .type = Type::kBool, .def = "false",
       .doc = "Write a merged model instead of an adapter."},
      {.path = "spec.export.verify", .type = Type::kBool, .def = "true",
       .doc = "Read the written adapter or model back into the engine and compare its "
              "log-probabilities on up to 8 records of 512 tokens, held out where there are some, "
              "with those of the trained state, before it gets its name. It takes at most 60 s, or "
              "3 % of the job if that is more. Beyond the bound the job fails and keeps its "
              "checkpoint.",
       .before = "false"},
      {.path = "spec.export.dtype", .type = Type::kWord, .def = "source",
       .words = {"source", "float32", "bfloat16", "float16", "fp8"},
       .doc = "Format of an exported model; an adapter is float32. `fp8`: weights of linears of "
              "blocks in E4M3 with a float32 scale for each 128 x 128, as transformers and vLLM "
              "read them; the rest as `source`. Linears of which a width is no multiple of 128 "
              "stay as `source`, with those that are one with them (q, k and v; gate and up). "
              "Models with experts are refused. `verify` does not compare it."},
      {.path = "spec.export.base_path", .type = Type::kBool, .def = "true",
       .doc = "Where no Hub id of the base is known, adapter_config.json names the base by its "
              "absolute path, as peft does, so that AutoPeftModelForCausalLM loads the adapter on "
              "this machine; `false`: by the name of its directory.", .before = "false"},
      {.path = "spec.export.adapter_layout", .type = Type::kWord, .def = "stacked",
       .words = {"stacked", "per_expert"},
       .doc = "How an adapter of experts is written. `stacked`: as PEFT writes "
              "`target_parameters`. `per_expert`: a pair for each linear of each expert "
              "(`experts.3.up_proj`), as vLLM and PEFT before transformers 5 read them; gate and "
              "up get the same A. `lora.init_from` reads both."},
      {.path = "spec.export.max_shard_size", .type = Type::kSize, .def = "5GB",
       .range = {.min = 1e6, .max = kMaxCount}, .doc = "Largest safetensors file."},
      {.path = "spec.export.gguf",
       .doc = "Files of llama.cpp beside what is exported, with tokenizer and template. A scalar "
              "is `model`.", .shorthand = "model"},
      {.path = "spec.export.gguf.model", .type = Type::kWord, .def = "none",
       .words = {"none", "f32", "f16", "bf16", "q8_0", "q4_k_m"},
       .doc = "Type of `model-TYPE.gguf`, the trained model or the merged one. It lies in "
              "`model/`, or where no model is exported in `adapter/`. Vectors and routers are "
              "float32. `q4_k_m`: 4 bits, and 5 to 8 for the matrices to which llama.cpp gives "
              "them."},
      {.path = "spec.export.gguf.adapter", .type = Type::kWord, .def = "none",
       .words = {"none", "f32", "f16", "bf16"},
       .doc = "Type of `adapter/adapter-TYPE.gguf`, a LoRA adapter of linears of blocks or of the "
              "head."},
      {.path = "spec.export.push_to_hub",
       .doc = "The repository of the Hugging Face Hub to which the controller sends the export, "
              "with its own token; of an adapter with `export.merge` the merged model. A scalar is "
              "`repo`.", .shorthand = "repo"},
      {.path = "spec.export.push_to_hub.repo", .type = Type::kString, .def = "null",
       .doc = "`org/name`; it is made where there is none. null: nothing is sent.",
       .nullable = true},
      {.path = "spec.export.push_to_hub.private", .type = Type::kBool, .def = "true",
       .doc = "A repository that is made is private, and one that is public is refused."},
      {.path = "spec.export.push_to_hub.revision", .type = Type::kString, .def = "main",
       .doc = "Branch; it is made where there is none."},
      // clang-format on
  };
  t->insert(t->end(), rows.begin(), rows.end());
}

}  // namespace coxswain::config
