// `cox tokenize`: lines of text to token ids and back, in-process.
#ifndef COXSWAIN_CONTROLLER_CLI_TOKENIZE_H_
#define COXSWAIN_CONTROLLER_CLI_TOKENIZE_H_

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

// Prints one JSON value for each line of the file, in order: the array of the line's ids, or its
// text. A line ends at its line feed, which does not belong to it (a carriage return does); an
// empty line gives [] (decode: ""). The file streams. Returns the exit code: 0; 4 for a tokenizer
// or file that is not there and 2 for one, or a line, that cannot be used, with one sentence on
// `err` (path:line for a line); 1 when work or output fails.
int RunTokenize(const TokenizeArgs& args, std::ostream& out, std::ostream& err);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TOKENIZE_H_
