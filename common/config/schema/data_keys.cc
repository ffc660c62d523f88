#include "common/config/schema/data_keys.h"

#include "common/config/schema/key.h"

namespace coxswain::config {

// NOLINTNEXTLINE(readability-function-size) a table
void AppendDataKeys(std::vector<Key>* table) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.datasets", .type = Type::kMapList, .def = "[]", .range = kAtLeastOne,
       .doc = "Training sources: at least one, or none with `method: generate`."},
      {.path = "spec.datasets[].path", .type = Type::kPath, .def = "null",
       .doc = "A file, a folder or a glob (`data/*.jsonl`, `**` any folders). JSON lines, a JSON "
              "array or CSV, optionally .gz or .zst, Parquet or Arrow; told by content. A text "
              "`org/name` that is no such path means `hub`, one that begins with https:// means "
              "`url`. Beside these: where the cache has it, set when the job is accepted.",
       .nullable = true},
      {.path = "spec.datasets[].hub", .type = Type::kString, .def = "null",
       .doc = "Dataset of the Hugging Face Hub: `org/name`. Its files are found as the datasets "
              "library finds them, and downloaded into the cache of huggingface_hub.",
       .nullable = true},
      {.path = "spec.datasets[].revision", .type = Type::kString, .def = "null",
       .doc = "Branch, tag or commit of `hub`; absent: main. When the job is accepted, it becomes "
              "the commit.",
       .nullable = true},
      {.path = "spec.datasets[].name", .type = Type::kString, .def = "null",
       .doc = "Config (subset) of `hub`; absent: its only or default one.", .nullable = true},
      {.path = "spec.datasets[].data_dir", .type = Type::kString, .def = "null",
       .doc = "Folder of `hub` that is read alone.", .nullable = true},
      {.path = "spec.datasets[].converted", .type = Type::kBool, .def = "false",
       .doc = "Reads the copy in Parquet that the Hub has of `hub` (refs/convert/parquet). It is "
              "set for a repository that needs a script."},
      {.path = "spec.datasets[].url", .type = Type::kString, .def = "null",
       .doc = "https:// URL of one data file, or the upload:// name that `cox upload` printed.",
       .nullable = true},
      {.path = "spec.datasets[].data_files", .type = Type::kStringList, .def = "[]",
       .doc = "Names or globs below the folder `path` or in the repository `hub`, read in this "
              "order. Empty: its data files, sorted by name."},
      {.path = "spec.datasets[].split", .type = Type::kString, .def = "null",
       .doc = "Reads only the files of a folder whose names begin with this word, or the split of "
              "`hub`, such as "
              "`train`; a single file is `train`. Records of them as the datasets library writes "
              "it: `train[:90%]`, `train[100:200]`, `train[-50:]`, `train+test[:10]`, `all`. null: "
              "the files of `train` where there are any (in `test_datasets`: of `validation` or "
              "`test`), else all files.",
       .nullable = true},
      {.path = "spec.datasets[].max_samples", .type = Type::kInt, .def = "null",
       .range = kAtLeastOne, .doc = "Read only this many records, the first ones.",
       .nullable = true},
      {.path = "spec.datasets[].format", .type = Type::kWord, .def = "auto",
       .words = {"auto", "alpaca", "chat", "sharegpt", "prompt_completion", "completion",
                 "input_output", "tokenized", "preference", "unpaired_preference",
                 "classification"},
       .doc = "`alpaca`: instruction, input, output. `chat`: messages (role, content, tool_calls, "
              "...). `sharegpt`: conversations (from, value). `prompt_completion`: prompt, "
              "completion. `completion`: text. `input_output`: segments (text, label). "
              "`tokenized`: input_ids, labels... `preference`: chosen, rejected, and their prompt. "
              "`unpaired_preference`: a completion and its label. `classification`: text or "
              "messages, and a label. `auto`: under a method that has a format of its own that "
              "one, else the fields of the first record decide. "
              "controller/data/RECORDS.md shows each by a record."},
      {.path = "spec.datasets[].prompt_style", .type = Type::kWord, .def = "alpaca",
       .words = {"alpaca", "chat"},
       .doc = "With `format: alpaca`: the Stanford text, or a user turn of `chat_template`. In "
              "preference records `chat` makes turns of a `prompt` and completions that are text, "
              "which else stay text as in TRL."},
      {.path = "spec.datasets[].weight", .type = Type::kNumber, .def = "1.0", .range = kPositive,
       .doc = "Number of copies of each record per pass. It does not scale the loss."},
      {.path = "spec.datasets[].special_tokens", .type = Type::kWord, .def = "auto",
       .words = {"auto", "plain", "content"},
       .doc = "How special tokens in the text of records are read: as text (`plain`), or as the "
              "tokens that they name (`content`). `auto`: plain in contents of messages and in "
              "alpaca; content in text that is rendered already (completion, prompt and "
              "completion, segments). `base_model.added_tokens` always count as tokens, unless "
              "the chat template writes them around turns."},
      {.path = "spec.datasets[].field_messages", .type = Type::kString, .def = "null",
       .doc = "Field of the turns in chat and sharegpt; absent: messages or conversations.",
       .nullable = true},
      {.path = "spec.datasets[].field_tools", .type = Type::kString, .def = "tools",
       .doc = "Field of the tools of a conversation: a list, or its JSON text.", .before = "''"},
      {.path = "spec.datasets[].field_system", .type = Type::kString, .def = "system",
       .doc = "Field of the system text of a conversation or an instruction.",
       .before = "''"},
      {.path = "spec.datasets[].field_instruction", .type = Type::kString, .def = "instruction",
       .doc = "Field of alpaca's instruction."},
      {.path = "spec.datasets[].field_input", .type = Type::kString, .def = "input",
       .doc = "Field of alpaca's input; records may lack it."},
      {.path = "spec.datasets[].field_output", .type = Type::kString, .def = "output",
       .doc = "Field of alpaca's output."},
      {.path = "spec.datasets[].field_history", .type = Type::kString, .def = "history",
       .doc = "Field of alpaca's earlier turns: a list of pairs of question and answer. They are "
              "trained only with `train_on: all`. Records may lack it.",
       .before = "''"},
      {.path = "spec.datasets[].field_prompt", .type = Type::kString, .def = "prompt",
       .doc = "Field of the prompt in prompt_completion: text or messages."},
      {.path = "spec.datasets[].field_completion", .type = Type::kString, .def = "completion",
       .doc = "Field of the completion in prompt_completion: text or messages."},
      {.path = "spec.datasets[].field_chosen", .type = Type::kString, .def = "null",
       .doc = "Field of the better completion in preference: text or messages; absent: chosen or "
              "chosen_response.", .nullable = true},
      {.path = "spec.datasets[].field_rejected", .type = Type::kString, .def = "null",
       .doc = "Field of the worse completion in preference: text or messages; absent: rejected or "
              "rejected_response.", .nullable = true},
      {.path = "spec.datasets[].field_label", .type = Type::kString, .def = "null",
       .doc = "Field that says whether a completion is good, in unpaired_preference: true, false, "
              "1 or 0; absent: label or kto_tag. In classification the field of the classes or "
              "numbers; absent: label or labels.", .nullable = true},
      {.path = "spec.datasets[].field_text", .type = Type::kString, .def = "text",
       .doc = "Field of the text in completion and classification."},
      {.path = "spec.datasets[].message_role_key", .type = Type::kString, .def = "null",
       .doc = "Key of a message that holds the role; absent: role, in sharegpt from.",
       .nullable = true},
      {.path = "spec.datasets[].message_content_key", .type = Type::kString, .def = "null",
       .doc = "Key of a message that holds the content; absent: content, in sharegpt value.",
       .nullable = true},
      {.path = "spec.datasets[].roles", .type = Type::kValueMap, .def = "{}",
       .doc = "Names of roles in the records, by our role: `{user: [human, customer], assistant: "
              "bot}`. The usual names are known."},
      {.path = "spec.test_datasets", .type = Type::kMapList, .def = "[]",
       .doc = "Evaluation sources, with the keys of `datasets`.", .children_of = "spec.datasets[]"},
      {.path = "spec.val_set_size", .type = Type::kNumber, .def = "null", .range = kNonNegative,
       .doc = "Training records that are held back for evaluation: below 1 a fraction, else a "
              "count. They are chosen by hash, before packing.", .nullable = true},
      {.path = "spec.data_rules", .type = Type::kInt, .def = "2", .range = {.min = 2, .max = 2},
       .doc = "Version of the rules by which records become tokens and targets "
              "(controller/data/RECORDS.md). A job that an earlier release accepted and prepared "
              "keeps its own version: it continues with its tokens, or is refused. A job that was "
              "never prepared takes this version.",
       .before = "1"},
      {.path = "spec.chat_template", .type = Type::kTemplate, .def = "auto",
       .words = {"auto", "tokenizer_default", "chatml", "llama3", "mistral", "gemma", "alpaca"},
       .doc = "How conversations become text. `tokenizer_default`: the model's own template. "
              "`auto`: that, or chatml where the model has none. A path: a Jinja file."},
      {.path = "spec.chat_template_kwargs", .type = Type::kValueMap, .def = "{}",
       .doc = "Variables of the template, for example `{enable_thinking: false}`. Those of a "
              "record (`chat_template_kwargs`) win."},
      {.path = "spec.roles_to_train", .type = Type::kStringList, .def = "[assistant]",
       .doc = "Roles whose messages are trained."},
      {.path = "spec.train_on", .type = Type::kWord, .def = "all",
       .words = {"all", "last", "split"},
       .doc = "Which turns of a conversation are trained: `all`; only the `last`; or `split`, "
              "each in a document of its own. Where a template writes earlier turns anew "
              "(reasoning), `all` trains each answer as it was said."},
      {.path = "spec.train_on_eos", .type = Type::kWord, .def = "turn",
       .words = {"turn", "last", "all", "none"},
       .doc = "Which end-of-turn tokens are trained: those of trained turns (`turn`), of the last "
              "trained turn, of every turn, or none."},
      {.path = "spec.train_on_inputs", .type = Type::kBool, .def = "false",
       .doc = "Train the tokens of prompts too."},
      {.path = "spec.on_bad_record", .type = Type::kWord, .def = "error",
       .words = {"error", "skip"},
       .doc = "`error`: a bad record fails the job. `skip`: bad records are counted and left out."},
      {.path = "spec.sequence_len", .type = Type::kInt, .def = "2048",
       .range = {.min = 2, .max = 1048576},
       .doc = "Tokens of a bin, and the most tokens of a document. A bin of pairs has twice as "
              "many."},
      {.path = "spec.excess_length", .type = Type::kWord, .def = "truncate",
       .words = {"truncate", "drop", "error", "split"},
       .doc = "What happens to documents longer than `sequence_len`. `split` cuts them into "
              "pieces of that length, each a document of its own. The counts are always reported."},
      {.path = "spec.packing", .doc = "How documents share bins."},
      {.path = "spec.packing.strategy", .type = Type::kWord, .def = "best_fit",
       .words = {"best_fit", "best_fit_decreasing", "first_fit", "none"},
       .doc = "How documents are placed in bins. `none`: one document per bin."},
      {.path = "spec.packing.window", .type = Type::kInt, .def = "100000", .range = kAtLeastOne,
       .doc = "Documents that are considered at once."},
      {.path = "spec.packing.max_documents_per_bin", .type = Type::kIntOrAuto, .def = "auto",
       .range = {.min = 1, .max = 1048576},
       .doc = "Most documents of a bin; more stay out, though tokens would fit. `auto`: one for "
              "every 64 tokens of `sequence_len`, and at least 32."},
      // clang-format on
  };
  table->insert(table->end(), rows.begin(), rows.end());
}

}  // namespace coxswain::config
