#include "controller/cli/jobs/render_template.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/jinja/chat_template.h"
#include "controller/text/jinja/values/containers.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::cli {
namespace {

namespace jinja = data::jinja;

absl::StatusOr<std::shared_ptr<const jinja::Template>> ReadTemplate(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf())) {
    return absl::DataLossError(absl::StrCat(path, ": read failed"));
  }
  return jinja::Template::Parse(text.str(), path);
}

absl::StatusOr<jinja::Clock> ReadClock(const std::string& now) {
  if (now.empty()) return jinja::Clock{absl::Now(), absl::LocalTimeZone()};
  jinja::Clock clock{absl::Time(), absl::UTCTimeZone()};
  std::string error;
  if (absl::ParseTime("%Y-%m-%d%ET%H:%M:%S", now, clock.zone, &clock.now, &error)) return clock;
  return absl::InvalidArgumentError(
      absl::StrCat("--now ", now, ": no time of the form 2025-07-26T12:00:00 (", error, ")"));
}

absl::StatusOr<jinja::SpecialTokens> ReadTokens(const RenderTemplateArgs& args) {
  jinja::SpecialTokens tokens;
  for (const auto& [text, token] :
       {std::pair(&args.bos, &tokens.bos), std::pair(&args.eos, &tokens.eos),
        std::pair(&args.pad, &tokens.pad), std::pair(&args.unk, &tokens.unk)}) {
    if (!jinja::IsUtf8(*text)) {
      return absl::InvalidArgumentError("a special token on the command line is not UTF-8");
    }
    if (!text->empty()) *token = *text;
  }
  return tokens;
}

// The fields of a line; an error tells what it is instead of an object.
absl::StatusOr<jinja::Conversation> ReadConversation(const std::string& line) {
  ASSIGN_OR_RETURN(const jinja::Value value, jinja::ParseJson(line));
  if (!value.is(jinja::Kind::kDict)) return absl::InvalidArgumentError("not a JSON object");
  jinja::Conversation conversation;
  const auto read = [&](const char* name, jinja::Value* field) {
    const jinja::Value* found = value.dict().Find(std::string_view(name));
    if (found != nullptr) *field = *found;
  };
  jinja::Value add_generation_prompt;
  read("messages", &conversation.messages);
  read("tools", &conversation.tools);
  read("documents", &conversation.documents);
  read("kwargs", &conversation.kwargs);
  read("add_generation_prompt", &add_generation_prompt);
  conversation.add_generation_prompt = jinja::Truth(add_generation_prompt);
  return conversation;
}

std::string ErrorText(const absl::Status& status, const std::string& name) {
  const std::optional<jinja::Refusal> refusal = jinja::RefusalOf(status);
  if (!refusal.has_value()) return std::string(status.message());
  std::string text = absl::StrCat(refusal->kind, ": ", refusal->message);
  if (refusal->kind != jinja::kTemplateError) {
    absl::StrAppend(&text, " (", name, ":", refusal->line, ")");
  }
  return text;
}

nlohmann::ordered_json Outcome(const absl::StatusOr<jinja::Rendering>& rendering,
                               const std::string& name) {
  if (!rendering.ok()) return {{"error", ErrorText(rendering.status(), name)}};
  nlohmann::ordered_json spans = nlohmann::ordered_json::array();
  for (const jinja::GenerationSpan& span : jinja::CodePointSpans(*rendering)) {
    spans.push_back({span.begin, span.end});
  }
  return {{"text", rendering->text}, {"spans", std::move(spans)}};
}

absl::Status RenderLines(const RenderTemplateArgs& args, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const jinja::Template> chat_template,
                   ReadTemplate(args.template_file));
  ASSIGN_OR_RETURN(const jinja::Clock clock, ReadClock(args.now));
  ASSIGN_OR_RETURN(const jinja::SpecialTokens tokens, ReadTokens(args));
  std::ifstream file;
  if (args.lines != "-") {
    file.open(args.lines, std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat(args.lines, ": cannot be opened"));
  }
  std::istream& in = args.lines == "-" ? std::cin : file;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    nlohmann::ordered_json outcome;
    if (const auto conversation = ReadConversation(line); conversation.ok()) {
      outcome = Outcome(jinja::RenderChat(*chat_template, *conversation, tokens, clock),
                        args.template_file);
    } else {
      outcome["error"] = absl::StrCat("ValueError: ", args.lines, ":", number, ": ",
                                      conversation.status().message());
    }
    using Handler = nlohmann::ordered_json::error_handler_t;
    if (!(out << outcome.dump(-1, ' ', false, Handler::replace) << "\n")) {
      return absl::DataLossError("output cannot be written");
    }
  }
  if (in.bad()) return absl::DataLossError(absl::StrCat(args.lines, ": read failed"));
  if (!out.flush()) return absl::DataLossError("output cannot be written");
  return absl::OkStatus();
}

}  // namespace

int RunRenderTemplate(const RenderTemplateArgs& args, std::ostream& out, std::ostream& err) {
  const absl::Status status = RenderLines(args, out);
  if (status.ok()) return 0;
  err << "cox: " << status.message() << "\n";
  if (absl::IsNotFound(status)) return 4;
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace coxswain::cli
