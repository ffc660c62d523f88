#include "worker/engine/device/chosen_algorithms.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace coxswain::engine {
namespace {

using Json = nlohmann::json;

std::string ProductLine(const Json& gemm) {
  const double microseconds = gemm.value("microseconds", 0.0);
  const char* added = "";
  if (gemm.value("accumulate", false)) added = gemm.value("addend", 0) > 0 ? " + addend" : " +=";
  std::string line = absl::StrFormat(
      "%d x %d x %d  %s%s  %s -> %s%s%s", gemm.value("m", int64_t{0}), gemm.value("n", int64_t{0}),
      gemm.value("k", int64_t{0}), gemm.value("transpose_a", false) ? "T" : "N",
      gemm.value("transpose_b", false) ? "T" : "N", gemm.value("dtype", std::string()),
      gemm.value("output_dtype", std::string()), added, gemm.value("bias", false) ? " bias" : "");
  if (microseconds <= 0) return line + "  not measured";
  return absl::StrCat(
      line, absl::StrFormat("  %.0f us  %.0f TFLOP/s", microseconds, gemm.value("tflops", 0.0)));
}

}  // namespace

std::string DescribeAlgorithms(const std::string& attention, const std::string& gemm_table) {
  std::string text = absl::StrCat("attention: ", attention);
  const Json table = Json::parse(gemm_table, nullptr, /*allow_exceptions=*/false);
  if (!table.is_object() || !table.contains("gemms")) return text;
  absl::StrAppend(&text, "\nproducts by cuBLASLt ", table.value("library", int64_t{0}), " on ",
                  table.value("device", std::string("?")), ":");
  for (const Json& gemm : table["gemms"]) absl::StrAppend(&text, "\n  ", ProductLine(gemm));
  return text;
}

}  // namespace coxswain::engine
