#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/default_job.h"
#include "controller/cli/jobs/render_template.h"
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

}  // namespace coxswain::cli
