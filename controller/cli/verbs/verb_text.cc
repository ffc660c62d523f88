// What a model reads of a text: the rendered template, the tokens.
#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/default_job.h"
#include "controller/cli/jobs/render_template.h"
#include "controller/cli/jobs/tokenize.h"
#include "controller/cli/text/exit_code.h"
#include "controller/data/documents/template_sample.h"

namespace coxswain::cli {
namespace {

int RunShowTemplate(Cox* cox, const DefaultJobArgs& args) {
  const auto job = DefaultJob(cox, args);
  if (!job.ok()) return cox->Fail(job.status());
  const auto text = data::TemplateSample(*job, cox->terminal.color);
  if (!text.ok()) return cox->Fail(text.status());
  cox->out() << *text;
  return kOk;
}

}  // namespace

void AddTemplate(CLI::App* app, Cox* cox) {
  struct TemplateArgs {
    RenderTemplateArgs render;
    std::string output = "json";
  };
  auto args = std::make_shared<TemplateArgs>();
  Verb chat_template(app, "template", "Chat templates; needs no controller");
  chat_template.RequireSubverb();
  Verb(chat_template.app(), "render", "Render conversations, one per line, with a chat template")
      .RequiredText("--template", &args->render.template_file, "The Jinja file")
      .RequiredText("--json-lines", &args->render.lines,
                    "Objects with messages, tools, add_generation_prompt and kwargs, one per line; "
                    "- for standard input")
      .Text("--bos", &args->render.bos, "The template's bos_token")
      .Text("--eos", &args->render.eos, "The template's eos_token")
      .Text("--pad", &args->render.pad, "The template's pad_token")
      .Text("--unk", &args->render.unk, "The template's unk_token")
      .Text("--now", &args->render.now, "Time that strftime_now returns, as 2025-07-26T12:00:00")
      .Output(&args->output, {"json"}, "one object per line: text and spans, or error")
      .Run(cox, [cox, args] { return RunRenderTemplate(args->render, cox->out(), cox->err()); });
  auto shown = std::make_shared<DefaultJobArgs>();
  Verb(chat_template.app(), "show",
       "Print a model's chat template, and a conversation with its targets")
      .RequiredText("model", &shown->model, "Model directory")
      .Text("--chat-template", &shown->chat_template, "Another template: a name or a Jinja file")
      .Run(cox, [cox, shown] { return RunShowTemplate(cox, *shown); });
}

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
