#include "kernels/device_code.h"

#include <charconv>
#include <vector>

namespace coxswain::kernels {
namespace {

constexpr int32_t kOldestCapability = 80;  // bfloat16 on the tensor cores begins there

// That runs programs of this CUDA, such as 13000 for 13.0.
int32_t OldestDriver(int32_t runtime) { return runtime < 13000 ? 525 : 580; }

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

std::string GpuRefusal(const std::string& name, int32_t capability, std::string_view built) {
  const std::string gpu = name + " (compute capability " + Dotted(capability) + ")";
  if (capability < kOldestCapability) {
    return gpu + " is too old: at least " + Dotted(kOldestCapability) +
           " is needed. Train on another GPU, or with resources: {device: cpu}";
  }
  if (HasCodeFor(built, capability)) return "";
  const std::string wanted = capability == 90 ? "90a" : std::to_string(capability);
  return gpu + " has no code in this build, which has " + DescribeCode(built) +
         ": build with -DCOXSWAIN_CUDA_ARCHITECTURES=" + wanted +
         ", or without that option for every GPU from 8.0 on";
}

std::string DriverRefusal(int32_t driver, int32_t runtime) {
  const auto version = [](int32_t cuda) {
    return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  };
  const std::string wanted = "driver " + std::to_string(OldestDriver(runtime)) + " or newer";
  if (driver == 0) {
    return "no NVIDIA driver is loaded on this host: install " + wanted + ", for CUDA " +
           version(runtime) + ", or use the CPU worker";
  }
  if (driver / 1000 >= runtime / 1000) return "";
  return "the NVIDIA driver of this host is too old: it supports CUDA " + version(driver) +
         ", this build needs CUDA " + version(runtime) + ". Install " + wanted;
}

}  // namespace coxswain::kernels
