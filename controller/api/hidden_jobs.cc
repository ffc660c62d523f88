#include "controller/api/hidden_jobs.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace coxswain::api {
namespace {

constexpr char kOfAnother[] = "(of another user)";

// Characters of which ids are made: a name, "-" and digits.
bool InId(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-'; }

bool OfAnother(const Context& context, const std::string& user, const std::string& id) {
  if (id.find('-') == std::string::npos) return false;
  const driver::JobDriver* job = context.jobs->FindById(id);
  return job != nullptr && job->job().owner() != user;
}

}  // namespace

std::string HideJobs(const Context& context, const access::Principal& caller, std::string text) {
  if (caller.role != access::Role::kUser) return text;
  std::string shown;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && InId(text[end])) ++end;
    const std::string word = text.substr(begin, end - begin);
    absl::StrAppend(&shown, OfAnother(context, caller.name, word) ? kOfAnother : word);
    if (end < text.size()) shown += text[end++];
    begin = end;
  }
  return shown;
}

}  // namespace coxswain::api
