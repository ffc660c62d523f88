#include "controller/data/repository/path_pattern.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

using Parts = std::vector<std::string_view>;

constexpr std::array<std::string_view, 6> kOwnFiles = {"README.md",         "config.json",
                                                       "dataset_info.json", "dataset_infos.json",
                                                       "dummy_data.zip",    "dataset_dict.json"};

Parts PartsOf(std::string_view path) {
  Parts parts;
  while (true) {
    const size_t slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

// A set of characters of a part, "[a-z]" or "[!a]".
class CharacterSet {
 public:
  // Takes it from `pattern`, which begins with its bracket. False: the bracket stands for itself.
  bool Take(std::string_view* pattern) {
    size_t begin = 1;
    negated_ = pattern->size() > 1 && (*pattern)[1] == '!';
    if (negated_) ++begin;
    // A closing bracket in the first place is one of the set.
    const size_t end = pattern->find(']', begin + 1);
    if (end == std::string_view::npos) return false;
    characters_ = pattern->substr(begin, end - begin);
    pattern->remove_prefix(end + 1);
    return true;
  }

  bool Holds(char character) const {
    const auto at = [this](size_t i) { return static_cast<unsigned char>(characters_[i]); };
    const auto wanted = static_cast<unsigned char>(character);
    bool found = false;
    for (size_t i = 0; i < characters_.size(); ++i) {
      const bool range = i + 2 < characters_.size() && characters_[i + 1] == '-';
      found = found || (range ? at(i) <= wanted && wanted <= at(i + 2) : at(i) == wanted);
      if (range) i += 2;
    }
    return found != negated_;
  }

 private:
  std::string_view characters_;
  bool negated_ = false;
};

// Takes what matches one character from `pattern`; false: `character` is another.
bool TakeOne(char character, std::string_view* pattern) {
  const char first = pattern->front();
  if (first == '[') {
    CharacterSet set;
    if (set.Take(pattern)) return set.Holds(character);
  }
  pattern->remove_prefix(1);
  return first == '?' || first == character;
}

bool PartMatches(std::string_view pattern, std::string_view part) {
  if (pattern == "*") return !part.empty();
  std::string_view star_pattern, star_part;  // behind the last star, and where it ends in `part`
  bool star = false;
  while (!part.empty()) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      star = true;
      star_pattern = pattern;
      star_part = part;
      continue;
    }
    if (!pattern.empty() && TakeOne(part.front(), &pattern)) {
      part.remove_prefix(1);
      continue;
    }
    if (!star) return false;
    star_part.remove_prefix(1);
    pattern = star_pattern;
    part = star_part;
  }
  return pattern.find_first_not_of('*') == std::string_view::npos;
}

// As PartMatches, with a part ** for a star and a part for a character. A last ** takes one part at
// least.
bool PathMatches(const Parts& pattern, const Parts& path) {
  size_t p = 0, at = 0, star = pattern.size(), star_at = 0;
  while (at < path.size()) {
    if (p < pattern.size() && pattern[p] == "**") {
      if (p + 1 == pattern.size()) return true;
      star = p++;
      star_at = at;
    } else if (p < pattern.size() && PartMatches(pattern[p], path[at])) {
      ++p;
      ++at;
    } else if (star < pattern.size()) {
      p = star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  return p == pattern.size();
}

bool IsHidden(std::string_view part) {
  return part.starts_with(".") && part.find_first_not_of('.') != std::string_view::npos;
}

// Hidden parts, and folders that begin with two underscores.
std::pair<ptrdiff_t, ptrdiff_t> SpecialParts(const Parts& parts) {
  return {std::count_if(parts.begin(), parts.end(), IsHidden),
          std::count_if(parts.begin(), parts.end() - 1,
                        [](std::string_view part) { return part.starts_with("__"); })};
}

}  // namespace

bool IsPattern(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

absl::StatusOr<std::string> PathBelow(std::string_view folder, std::string_view path) {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("\"", std::string(path), "\" ", what));
  };
  if (path.find("://") != std::string_view::npos) {
    return bad("is an address; fetch it and give the file as a path of its own");
  }
  if (path.starts_with("/")) return bad("is absolute; name files below the repository");
  std::string below(folder);
  for (const std::string_view part : PartsOf(path)) {
    if (part == "..") return bad("leaves the repository");
    if (part.empty() || part == ".") continue;
    absl::StrAppend(&below, below.empty() ? "" : "/", std::string(part));
  }
  return below;
}

absl::StatusOr<std::vector<std::string>> FilesMeant(std::string_view pattern,
                                                    const std::vector<std::string>& files) {
  const Parts wanted = PartsOf(pattern);
  for (const std::string_view part : wanted) {
    if (part == "**" || part.find("**") == std::string_view::npos) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(pattern), "\": ** is a part of its own, as in **/*.csv"));
  }
  std::vector<std::string> meant;
  for (const std::string& file : files) {
    const Parts parts = PartsOf(file);
    const bool own = std::find(kOwnFiles.begin(), kOwnFiles.end(), parts.back()) != kOwnFiles.end();
    if (own && parts.back() != wanted.back()) continue;
    if (!PathMatches(wanted, parts) || SpecialParts(parts) != SpecialParts(wanted)) continue;
    meant.push_back(file);
  }
  std::sort(meant.begin(), meant.end());
  return meant;
}

}  // namespace coxswain::data
