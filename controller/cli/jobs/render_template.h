// `cox template render`: renders conversations with a chat template, in-process.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_RENDER_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_RENDER_TEMPLATE_H_

#include <ostream>
#include <string>

namespace coxswain::cli {

struct RenderTemplateArgs {
  std::string template_file;
  std::string lines;  // file of JSON lines; "-" reads standard input
  std::string bos;    // special tokens; an empty token is undefined in the template
  std::string eos;
  std::string pad;
  std::string unk;
  std::string now;  // time that strftime_now returns, as 2025-07-26T12:00:00; empty: now
};

// Each line is an object with messages and, optionally, tools, documents, add_generation_prompt and
// kwargs (more variables). Other keys are ignored. Prints one object per line, in order. It is
// {"text", "spans"}, where spans are the ranges [begin, end) in code points that the template marks
// with {% generation %}. For a refused or malformed line it is {"error"} with Python's exception
// type and the reason. Returns the exit code: 0 even when the template refused lines; 4 for a
// missing file; 2 for a template that cannot be parsed or a --now that is no time, with one
// sentence on `err`; 1 when output fails.
int RunRenderTemplate(const RenderTemplateArgs& args, std::ostream& out, std::ostream& err);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_RENDER_TEMPLATE_H_
