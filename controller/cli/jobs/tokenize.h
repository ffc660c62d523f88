// `cox tokenize`: converts lines of text to token ids and back, in-process.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_TOKENIZE_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_TOKENIZE_H_

#include <ostream>
#include <string>

namespace coxswain::cli {

struct TokenizeArgs {
  std::string tokenizer;    // model directory or tokenizer.json
  std::string file;         // one record a line; "-" reads standard input
  bool json_lines = false;  // each line is a JSON string
  bool decode = false;      // each line is a JSON array of ids; prints a JSON string
  int threads = 0;          // 0: all cores
};

// Prints one JSON value per line of the file, in order: the array of the line's ids, or its text.
// The line feed does not belong to the line, a carriage return does. An empty line gives []
// (decode: ""). The file is streamed. Returns the exit code: 0; 4 for a missing tokenizer or file;
// 2 for an unusable tokenizer, file or line, with one sentence on `err` (path:line for a line); 1
// when work or output fails.
int RunTokenize(const TokenizeArgs& args, std::ostream& out, std::ostream& err);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_TOKENIZE_H_
