// Reads tokenizer_config.json and the files of chat templates beside it.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKENIZER_CONFIG_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKENIZER_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// Reads the named tokens, add_bos_token, add_eos_token and the chat templates of `text`, a
// tokenizer_config.json. InvalidArgument: it is not JSON, or contradicts the tokenizer.
absl::Status ReadTokenizerConfig(const std::string& text, TokenizerFile* file);

// Reads chat_template.jinja and additional_chat_templates/*.jinja of `directory`. They override
// those of tokenizer_config.json. Appends the text that it read to *read.
absl::Status ReadTemplateFiles(const std::string& directory, TokenizerFile* file,
                               std::string* read);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKENIZER_CONFIG_H_
