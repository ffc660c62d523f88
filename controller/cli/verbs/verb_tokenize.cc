#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/tokenize.h"

namespace coxswain::cli {

void AddTokenize(CLI::App* app, Cox* cox) {
  struct Args {
    TokenizeArgs tokenize;
    int64_t threads = 0;
    std::string output = "json";
  };
  auto args = std::make_shared<Args>();
  Verb(app, "tokenize", "Print the token ids of each line of a file; needs no controller")
      .RequiredText("--tokenizer", &args->tokenize.tokenizer,
                    "Model directory, tokenizer.json or tokenizer.model")
      .RequiredText("--file", &args->tokenize.file, "One text per line, - for standard input")
      .Flag("--json-lines", &args->tokenize.json_lines, "Each line is a JSON string")
      .Flag("--decode", &args->tokenize.decode,
            "Each line is a JSON array of ids; prints the text as a JSON string")
      .Integer("--threads", &args->threads, 0, 1024, "0: all cores")
      .Output(&args->output, {"json"}, "one value a line")
      .Run(cox, [cox, args] {
        args->tokenize.threads = static_cast<int>(args->threads);
        return RunTokenize(args->tokenize, cox->out(), cox->err());
      });
}

}  // namespace coxswain::cli
