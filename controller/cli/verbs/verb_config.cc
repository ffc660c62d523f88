#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/net/socket_address.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/connect/contexts.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

// Reads the contexts, lets `change` change them, and writes them.
template <typename Change>
absl::Status ChangeContexts(const Change& change) {
  const std::string path = ContextsFile();
  ASSIGN_OR_RETURN(Contexts contexts, ReadContexts(path));
  RETURN_IF_ERROR(change(&contexts));
  return WriteContexts(path, contexts);
}

int Done(Cox* cox, const absl::Status& status, const std::string& line) {
  if (!status.ok()) return cox->Fail(status);
  cox->out() << line << "\n";
  return kOk;
}

// A name that stands in a command line and a table as it is.
absl::Status CheckName(const std::string& name) {
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '@';
    if (plain) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", OneLine(name), "': a context's name holds letters, digits and -, _, ., @ only"));
  }
  if (!name.empty() && name[0] != '-') return absl::OkStatus();
  return absl::InvalidArgumentError("a context's name begins with a letter or a digit");
}

struct Settings {
  Context given;
  std::function<bool(const char* option)> has;  // was it given?
};

absl::Status SetFile(const char* option, const std::string& given, std::string* field) {
  if (given.empty()) {
    field->clear();
    return absl::OkStatus();
  }
  std::error_code error;
  const std::string path = std::filesystem::absolute(given, error).lexically_normal().string();
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(option, " ", path, ": there is no such file"));
  }
  *field = path;
  return absl::OkStatus();
}

absl::Status SetAll(const Settings& settings, Context* context) {
  if (settings.has("--server")) {
    RETURN_IF_ERROR(ParseSocketAddress(settings.given.server).status());
    context->server = settings.given.server;
  }
  const std::pair<const char*, std::string Context::*> files[] = {
      {"--ca", &Context::ca},
      {"--cert", &Context::cert},
      {"--key", &Context::key},
      {"--token-file", &Context::token_file}};
  for (const auto& [option, field] : files) {
    if (!settings.has(option)) continue;
    RETURN_IF_ERROR(SetFile(option, settings.given.*field, &(context->*field)));
  }
  if (context->server.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("context ", context->name, " is new: give --server HOST:PORT"));
  }
  if (context->cert.empty() != context->key.empty()) {
    return absl::InvalidArgumentError("a certificate goes with its key: give --cert and --key");
  }
  return absl::OkStatus();
}

int RunSet(Cox* cox, const Settings& settings) {
  const std::string& name = settings.given.name;
  bool made = false, in_use = false;
  const absl::Status status = ChangeContexts([&](Contexts* contexts) -> absl::Status {
    RETURN_IF_ERROR(CheckName(name));
    const Context* known = contexts->Find(name);
    made = known == nullptr;
    in_use = contexts->current == name;
    Context context = made ? Context() : *known;
    context.name = name;
    RETURN_IF_ERROR(SetAll(settings, &context));
    if (made) contexts->list.push_back(context);
    for (Context& each : contexts->list) {
      if (each.name == name) each = context;
    }
    return absl::OkStatus();
  });
  const int code = Done(cox, status, absl::StrCat("context ", name, made ? " made" : " changed"));
  if (code == kOk && !in_use) cox->err() << "use it with: cox config use-context " << name << "\n";
  return code;
}

int RunUse(Cox* cox, const std::string& name, bool none) {
  if (name.empty() != none) {
    return cox->Fail(absl::InvalidArgumentError("give the name of a context, or --none"));
  }
  const absl::Status status = ChangeContexts([&](Contexts* contexts) -> absl::Status {
    if (!none) RETURN_IF_ERROR(GetContext(*contexts, name).status());
    contexts->current = name;
    return absl::OkStatus();
  });
  return Done(cox, status,
              none ? "no context is in use" : absl::StrCat("context ", name, " is in use"));
}

int RunList(Cox* cox, const std::string& output) {
  const absl::StatusOr<Contexts> contexts = ReadContexts(ContextsFile());
  if (!contexts.ok()) return cox->Fail(contexts.status());
  Table table({"CURRENT", "NAME", "SERVER", "CA", "CERTIFICATE", "KEY", "TOKEN-FILE"});
  Json list = Json::array();
  for (const Context& context : contexts->list) {
    const bool current = context.name == contexts->current;
    if (output == "name") cox->out() << OneLine(context.name) << "\n";
    table.Add({current ? "*" : "", context.name, context.server, context.ca, context.cert,
               context.key, context.token_file});
    list.push_back({{"name", context.name},
                    {"current", current},
                    {"server", context.server},
                    {"ca", context.ca},
                    {"cert", context.cert},
                    {"key", context.key},
                    {"token_file", context.token_file}});
  }
  if (IsStructured(output)) {
    PrintStructured({{"contexts", list}}, output, cox->out());
  } else if (output == "table" && !list.empty()) {
    cox->out() << table.Text();
  }
  if (list.empty()) cox->err() << "no contexts\n";
  return kOk;
}

int RunCurrent(Cox* cox) {
  const absl::StatusOr<Contexts> contexts = ReadContexts(ContextsFile());
  if (!contexts.ok()) return cox->Fail(contexts.status());
  if (contexts->current.empty()) {
    return cox->Fail(
        absl::NotFoundError("no context is in use; choose one with: cox config "
                            "use-context NAME"));
  }
  cox->out() << OneLine(contexts->current) << "\n";
  return kOk;
}

int RunDelete(Cox* cox, const std::string& name) {
  const absl::Status status = ChangeContexts([&](Contexts* contexts) -> absl::Status {
    RETURN_IF_ERROR(GetContext(*contexts, name).status());
    std::erase_if(contexts->list, [&](const Context& context) { return context.name == name; });
    if (contexts->current == name) contexts->current.clear();
    return absl::OkStatus();
  });
  return Done(cox, status, absl::StrCat("context ", name, " deleted"));
}

void AddSet(CLI::App* config, Cox* cox) {
  auto settings = std::make_shared<Settings>();
  Verb verb(config, "set-context", "Make a context, or change the given settings of one");
  verb.RequiredText("name", &settings->given.name, "What to call it")
      .Text("--server", &settings->given.server, "Controller as host:port")
      .Text("--ca,--tls-ca", &settings->given.ca,
            "PEM file of the CA that signed the controller's certificate")
      .Text("--cert,--tls-cert", &settings->given.cert, "PEM file of this client's certificate")
      .Text("--key,--tls-key", &settings->given.key, "PEM file of this client's key")
      .Text("--token-file", &settings->given.token_file,
            "File with a token of cox token create; it is read at each call")
      .Footer("An empty value removes a setting: --token-file ''");
  settings->has = verb.Given();
  verb.Run(cox, [cox, settings] { return RunSet(cox, *settings); });
}

void AddUse(CLI::App* config, Cox* cox) {
  auto name = std::make_shared<std::string>();
  auto none = std::make_shared<bool>(false);
  Verb(config, "use-context", "Use a context from now on")
      .Text("name", name.get(), "Name in cox config get-contexts")
      .Flag("--none", none.get(), "Use no context: cox then finds the controller of cox up")
      .Run(cox, [cox, name, none] { return RunUse(cox, *name, *none); });
}

}  // namespace

void AddConfig(CLI::App* app, Cox* cox) {
  Verb config(app, "config",
              "Save server, certificates and token of controllers as named contexts");
  config.RequireSubverb().Footer(
      "The file is $XDG_CONFIG_HOME/coxswain/config.yaml (~/.config). A flag comes first, "
      "then\nCOXSWAIN_SERVER, COXSWAIN_TLS_CA, COXSWAIN_TLS_CERT, COXSWAIN_TLS_KEY, COXSWAIN_TOKEN "
      "and\nCOXSWAIN_TOKEN_FILE, then the context: --context, COXSWAIN_CONTEXT or the current one. "
      "A context\nthat --context names comes before the environment. Certificates and token of a "
      "context are\nused for its own server only.");
  AddSet(config.app(), cox);
  AddUse(config.app(), cox);
  auto output = std::make_shared<std::string>("table");
  Verb(config.app(), "get-contexts", "List the contexts")
      .Output(output.get(), {"table", "name", "json", "yaml"})
      .Run(cox, [cox, output] { return RunList(cox, *output); });
  Verb(config.app(), "current-context", "Name the context that is in use").Run(cox, [cox] {
    return RunCurrent(cox);
  });
  auto name = std::make_shared<std::string>();
  Verb(config.app(), "delete-context", "Forget a context; its files stay")
      .RequiredText("name", name.get(), "Name in cox config get-contexts")
      .Run(cox, [cox, name] { return RunDelete(cox, *name); });
}

}  // namespace coxswain::cli
