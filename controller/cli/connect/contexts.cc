#include "controller/cli/connect/contexts.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/access/secret_file.h"
#include "common/config/yaml_tree.h"
#include "common/files/private_folder.h"
#include "common/files/read_file.h"
#include "common/host.h"
#include "common/status_macros.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

using config::Node;
constexpr int64_t kMostBytes = 1 << 20;

constexpr std::pair<const char*, std::string Context::*> kFields[] = {
    {"name", &Context::name}, {"server", &Context::server}, {"ca", &Context::ca},
    {"cert", &Context::cert}, {"key", &Context::key},       {"token_file", &Context::token_file},
};

absl::Status Bad(const std::string& path, int line, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", message));
}

absl::Status ReadText(const std::string& path, const config::Entry& entry, std::string* text) {
  if (entry.value.kind != Node::Kind::kScalar) {
    return Bad(path, entry.line, absl::StrCat(entry.key, " must be text"));
  }
  *text = entry.value.text;
  return absl::OkStatus();
}

absl::StatusOr<Context> ReadContext(const std::string& path, const Node& map) {
  Context context;
  for (const config::Entry& entry : map.entries) {
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&](const auto& row) { return entry.key == row.first; });
    if (field == std::end(kFields)) {
      return Bad(path, entry.line, absl::StrCat("unknown key ", entry.key, " of a context"));
    }
    RETURN_IF_ERROR(ReadText(path, entry, &(context.*(field->second))));
  }
  if (context.name.empty() || context.server.empty()) {
    return Bad(path, map.line, "a context needs name and server");
  }
  return context;
}

absl::Status CheckUnwritten(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || (found.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      path, " can be written by others: look at what is in it, then chmod 600 ", path));
}

absl::StatusOr<Contexts> Parse(const std::string& path, const std::string& text) {
  const config::YamlTree tree = config::ParseYaml(text);
  if (!tree.problems.empty()) {
    return Bad(path, tree.problems[0].line, tree.problems[0].message);
  }
  Contexts contexts;
  for (const config::Entry& entry : tree.root.entries) {
    if (entry.key == "current") {
      RETURN_IF_ERROR(ReadText(path, entry, &contexts.current));
    } else if (entry.key == "contexts") {
      for (const Node& item : entry.value.items) {
        ASSIGN_OR_RETURN(Context context, ReadContext(path, item));
        contexts.list.push_back(std::move(context));
      }
    } else {
      return Bad(path, entry.line, absl::StrCat("unknown key ", entry.key));
    }
  }
  return contexts;
}

std::string Names(const Contexts& contexts) {
  if (contexts.list.empty()) return "none";
  return absl::StrJoin(contexts.list, ", ",
                       [](std::string* out, const Context& context) { out->append(context.name); });
}

}  // namespace

const Context* Contexts::Find(const std::string& name) const {
  for (const Context& context : list) {
    if (context.name == name) return &context;
  }
  return nullptr;
}

std::string ContextsFile() { return absl::StrCat(ConfigDir(), "/config.yaml"); }

absl::StatusOr<Contexts> ReadContexts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMostBytes);
  if (absl::IsNotFound(text.status())) return Contexts();
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckUnwritten(path));
  return Parse(path, *text);
}

absl::Status WriteContexts(const std::string& path, const Contexts& contexts) {
  nlohmann::ordered_json json;
  if (!contexts.current.empty()) json["current"] = contexts.current;
  json["contexts"] = nlohmann::ordered_json::array();
  for (const Context& context : contexts.list) {
    nlohmann::ordered_json item;
    for (const auto& [name, field] : kFields) {
      if (!(context.*field).empty()) item[name] = context.*field;
    }
    json["contexts"].push_back(std::move(item));
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  const std::string place = error ? path : target.string();
  RETURN_IF_ERROR(MakePrivateFolder(std::filesystem::path(place).parent_path().string()));
  std::string text = ToYaml(json);
  absl::StripTrailingAsciiWhitespace(&text);
  return access::WriteSecret(place, text);
}

absl::StatusOr<Context> GetContext(const Contexts& contexts, const std::string& name) {
  const Context* context = contexts.Find(name);
  if (context != nullptr) return *context;
  return absl::NotFoundError(
      absl::StrCat("no context '", name, "' in ", ContextsFile(), "; there is ", Names(contexts),
                   ". Make it with: cox config set-context ", name, " --server HOST:PORT"));
}

}  // namespace coxswain::cli
