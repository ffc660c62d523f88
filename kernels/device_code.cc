#include "kernels/device_code.h"

#include <charconv>
#include <vector>

namespace coxswain::kernels {
namespace {

struct Architecture {
  int32_t capability = 0;  // x 10
  char features = ' ';     // 'a', 'f', or none
  bool code = true, ptx = true;
};

std::vector<Architecture> Parse(std::string_view built) {
  std::vector<Architecture> all;
  while (!built.empty()) {
    const size_t end = built.find(' ');
    std::string_view word = built.substr(0, end);
    built.remove_prefix(end == std::string_view::npos ? built.size() : end + 1);
    Architecture one;
    if (word.ends_with("-real")) one.ptx = false;
    if (word.ends_with("-virtual")) one.code = false;
    word = word.substr(0, word.find('-'));
    const auto [rest, error] =
        std::from_chars(word.data(), word.data() + word.size(), one.capability);
    if (error != std::errc()) continue;
    if (rest != word.data() + word.size()) one.features = *rest;
    all.push_back(one);
  }
  return all;
}

bool RunsOn(const Architecture& built, int32_t capability) {
  if (built.features == 'a') return capability == built.capability;
  if (capability < built.capability) return false;
  if (built.ptx && built.features == ' ') return true;
  return capability / 10 == built.capability / 10;
}

std::string Dotted(int32_t capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

void AppendName(const Architecture& one, std::string* list) {
  if (!list->empty()) *list += " ";
  *list += Dotted(one.capability);
  if (one.features != ' ') *list += one.features;
}

}  // namespace

bool HasCodeFor(std::string_view built, int32_t capability) {
  for (const Architecture& one : Parse(built)) {
    if (RunsOn(one, capability)) return true;
  }
  return false;
}

std::string DescribeCode(std::string_view built) {
  std::string code, ptx;
  for (const Architecture& one : Parse(built)) {
    if (one.code) AppendName(one, &code);
    if (one.ptx) AppendName(one, &ptx);
  }
  if (ptx.empty()) return code;
  return (code.empty() ? "" : code + ", ") + "PTX " + ptx;
}

std::string MissingCode(const std::string& name, int32_t capability, std::string_view built) {
  const std::string wanted = capability == 90 ? "90a" : std::to_string(capability);
  return name + " (compute capability " + Dotted(capability) +
         ") has no code in this build, which has " + DescribeCode(built) +
         ": build with -DCOXSWAIN_CUDA_ARCHITECTURES=" + wanted +
         ", or without that option for every GPU from 8.0 on";
}

}  // namespace coxswain::kernels
