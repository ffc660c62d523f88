// What transformers' Trainer decides, which all three tools hand their keys to: how long, at which
// rate, by which rule, in which precision, and when it evaluates and saves.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TRAINER_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TRAINER_H_

#include <string_view>

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// num_epochs and max_steps, of which the second wins.
void TranslateLength(Translation* t, std::string_view epochs_key, double default_epochs);

// lr_scheduler with its kwargs, and warm-up. Without a warm-up in the file there is none, or one
// of `default_warmup_ratio`.
void TranslateSchedule(Translation* t, std::string_view key, std::string_view default_scheduler,
                       double default_warmup_ratio);

// optimizer, betas, clipping; norms and biases do not decay.
void TranslateOptimizer(Translation* t, std::string_view key);

// bf16, fp16 and their older names. `default_bf16`: what a file without a word gets.
void TranslatePrecision(Translation* t, bool default_bf16);

// When it evaluates, after the evaluation sources are written; `patience_key` may be empty.
void TranslateEvaluation(Translation* t, std::string_view patience_key);

// output_dir, when it saves, what it takes up again.
void TranslateSaving(Translation* t);

// How it logs and where it runs; then every key that nothing has taken.
void TranslateRun(Translation* t);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TRAINER_H_
