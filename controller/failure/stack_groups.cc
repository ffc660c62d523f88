#include "controller/failure/stack_groups.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace coxswain::failure {
namespace {

// A function's name without its parameters and what stands in its brackets.
std::string ShortName(absl::string_view name) {
  constexpr absl::string_view kAnonymous = "(anonymous namespace)";
  std::string out;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool opens = c == '<' || c == '{', closes = c == '>' || c == '}';
    if (closes && depth > 0) --depth;
    if (depth == 0 && c == '(') {
      if (absl::StartsWith(name.substr(i), kAnonymous)) {
        absl::StrAppend(&out, kAnonymous);
        i += kAnonymous.size() - 1;
        continue;
      }
      if (!absl::EndsWith(out, "operator")) break;
      out += "()";
      ++i;
      continue;
    }
    if (depth == 0) out += c;
    if (opens) ++depth;
  }
  return out;
}

// "#3  0x00007f in poll () from /lib/libc.so.6" -> "poll (libc.so.6)"; an inlined frame has no
// address.
std::string FrameName(absl::string_view line) {
  const size_t number_end = line.find_first_of(" \t");
  if (number_end == absl::string_view::npos) return "??";
  line = absl::StripLeadingAsciiWhitespace(line.substr(number_end));
  const size_t in = line.find(" in ");
  if (absl::StartsWith(line, "0x") && in != absl::string_view::npos) line.remove_prefix(in + 4);
  std::string library;
  if (const size_t from = line.rfind(" from "); from != absl::string_view::npos) {
    const absl::string_view path = line.substr(from + 6);
    const size_t slash = path.rfind('/');
    library = std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
    line = line.substr(0, from);
  }
  const std::string name(absl::StripAsciiWhitespace(ShortName(line)));
  return library.empty() ? name : absl::StrCat(name, " (", library, ")");
}

// "Thread 3 (Thread 0x7f (LWP 12) "executor"):" -> "executor"; one without a name is "thread".
std::string ThreadName(absl::string_view header) {
  const size_t begin = header.find('"'), end = header.rfind('"');
  if (begin == absl::string_view::npos || end <= begin) return "thread";
  return std::string(header.substr(begin + 1, end - begin - 1));
}

// "thread 12 name  State: S (sleeping)  wchan: futex_wait" of /proc, without the number.
std::string ProcThread(absl::string_view line) {
  line.remove_prefix(absl::string_view("thread ").size());
  const size_t blank = line.find(' ');
  return std::string(
      absl::StripAsciiWhitespace(blank == absl::string_view::npos ? line : line.substr(blank)));
}

// Name, then a line for each frame.
std::vector<std::string> Threads(const std::string& text) {
  std::vector<std::string> threads;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "Thread ")) {
      threads.push_back(ThreadName(line));
    } else if (absl::StartsWith(line, "thread ")) {
      threads.push_back(ProcThread(line));
    } else if (absl::StartsWith(line, "#") && !threads.empty()) {
      absl::StrAppend(&threads.back(), "\n    ", FrameName(line));
    }
  }
  return threads;
}

bool IsOurs(const std::string& thread) {
  return absl::StrContains(thread, "coxswain::") && !absl::StrContains(thread, "Agent::DumpJson");
}

// Carries out a command, or what belongs to one.
bool Works(const std::string& thread) {
  constexpr absl::string_view kWork[] = {
      "coxswain::agent::Agent::", "coxswain::comm::", "coxswain::engine::", "coxswain::kernels::"};
  return IsOurs(thread) && std::any_of(std::begin(kWork), std::end(kWork),
                                       [&](auto work) { return absl::StrContains(thread, work); });
}

}  // namespace

std::string NormalStacks(const std::string& text) {
  std::vector<std::string> all = Threads(text);
  for (const auto counts : {&Works, &IsOurs}) {
    if (std::none_of(all.begin(), all.end(), counts)) continue;
    all.erase(std::remove_if(all.begin(), all.end(), std::not_fn(counts)), all.end());
    break;
  }
  const std::set<std::string> threads(all.begin(), all.end());
  return absl::StrCat(absl::StrJoin(threads, "\n"), threads.empty() ? "" : "\n");
}

std::vector<StackGroup> GroupStacks(const std::map<int, std::string>& stacks_by_rank) {
  std::map<std::string, std::vector<int>> by_stacks;
  for (const auto& [rank, text] : stacks_by_rank) {
    if (!text.empty()) by_stacks[NormalStacks(text)].push_back(rank);
  }
  std::vector<StackGroup> groups;
  for (auto& [stacks, ranks] : by_stacks) groups.push_back({std::move(ranks), stacks});
  std::sort(groups.begin(), groups.end(), [](const StackGroup& a, const StackGroup& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size()
                                            : a.ranks.front() < b.ranks.front();
  });
  return groups;
}

}  // namespace coxswain::failure
