// `cox template render`: conversations through a chat template, in-process.
#ifndef COXSWAIN_CONTROLLER_CLI_RENDER_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_CLI_RENDER_TEMPLATE_H_

#include <ostream>
#include <string>

namespace coxswain::cli {

struct RenderTemplateArgs {
  std::string template_file;
  std::string lines;  // file of JSON lines; "-" reads standard input
  std::string bos;    // special tokens; an empty one is undefined in the template
  std::string eos;
  std::string pad;
  std::string unk;
  std::string now;  // what strftime_now answers, as 2025-07-26T12:00:00; empty: the time now
};

// Each line is an object: messages, and perhaps tools, documents, add_generation_prompt and kwargs
// (more variables); other keys are not looked at. Prints one object for each line, in order:
// {"text", "spans"}, spans being [begin, end) in code points of what the template marks with
// {% generation %}, or {"error"}: Python's kind and the reason, also for a line that is no such
// object. Returns the exit code: 0 whatever the template refused; 4 for a file that is not there; 2
// for a template that cannot be parsed or a --now that is no time, with one sentence on `err`; 1
// when output fails.
int RunRenderTemplate(const RenderTemplateArgs& args, std::ostream& out, std::ostream& err);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_RENDER_TEMPLATE_H_
